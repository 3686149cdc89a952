use super::*;

#[test]
fn an_image_begins_as_what_it_says_it_is() {
    for (kind, bytes, expected) in [
        ("image/png", &b"\x89PNG\r\n\x1a\n..."[..], true),
        ("image/png", b"<svg>", false),
        ("image/png", b"", false),
        ("image/jpeg", b"\xff\xd8\xff\xe0", true),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", false),
        ("image/gif", b"GIF89a..", true),
        ("image/gif", b"GIF8", false),
        ("image/webp", b"RIFF\x01\x00\x00\x00WEBPVP8 ", true),
        ("image/webp", b"RIFF\x01\x00\x00\x00WAVE", false),
        ("image/webp", b"RIFF", false),
        ("image/svg+xml", b"\x89PNG\r\n\x1a\n", false),
    ] {
        assert_eq!(
            is_supported_type(kind) && has_signature(kind, bytes),
            expected,
            "{kind} {bytes:?}"
        );
    }
}
