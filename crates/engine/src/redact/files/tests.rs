use super::*;

#[track_caller]
fn check(bytes: &[u8], text: Option<&str>) {
    assert_eq!(decode_text(bytes.to_vec()).ok().as_deref(), text, "{bytes:?}");
}

#[test]
fn text_is_told_from_anything_else_by_what_it_is_made_of() {
    let units: Vec<u16> = "név,Ann Lee\n".encode_utf16().collect();
    let little: Vec<u8> = units.iter().copied().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units.iter().copied().flat_map(u16::to_be_bytes).collect();
    check("név,Ann Lee\n".as_bytes(), Some("név,Ann Lee\n"));
    for (mark, bytes) in [(&[0xff, 0xfe], &little), (&[0xfe, 0xff], &big)] {
        check(&[mark.as_slice(), bytes].concat(), Some("név,Ann Lee\n"));
        check(bytes, Some("név,Ann Lee\n"));
    }
    // Plain letters alone are valid UTF-8 in both cases.
    check(b"A\0n\0n\0 \0L\0e\0e\0", Some("Ann Lee"));
    check(b"\0A\0n\0n", Some("Ann"));
    check(b"Ann\0Lee", Some("Ann\0Lee"));
    // Latin-1, also with a stray byte.
    check(b"n\xe9v,Ann Lee", Some("n\u{fffd}v,Ann Lee"));
    let stray = [b"n\xe9v,Ann Lee ".repeat(10).as_slice(), &[0]].concat();
    assert!(decode_text(stray).unwrap().contains("Ann Lee"));
    // The beginnings of an image, an audio file and an archive.
    let sound: Vec<u8> = (0..400_i16)
        .flat_map(|sample| (sample * 37 % 300).to_le_bytes())
        .collect();
    check(&[b"RIFF\x24\0\0\0WAVEfmt ".as_slice(), &sound].concat(), None);
    let packed: Vec<u8> = (0..9_000_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    check(&packed, None);
    check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x06\0\0\0", None);
}
