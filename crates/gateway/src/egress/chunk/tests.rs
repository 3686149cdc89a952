use super::*;

#[test]
fn a_body_ends_where_it_says_however_it_is_cut() {
    let body = b"3\r\nabc\r\n00A\r\n0123456789\r\n0\r\nX-T: 1\r\nY: 2\r\n\r\n";
    let whole = [body.as_slice(), b"GET / HTTP/1.1"].concat();
    assert_eq!(
        ChunkScanner::default().scan(&whole),
        (body.len(), ScanProgress::Complete)
    );
    for cut in 1..whole.len() {
        let mut chunks = ChunkScanner::default();
        let (first, next) = chunks.scan(&whole[..cut]);
        let over = next == ScanProgress::Complete;
        assert_eq!((first, over), (cut.min(body.len()), cut >= body.len()), "{cut}");
        if !over {
            assert_eq!(
                chunks.scan(&whole[cut..]),
                (body.len() - cut, ScanProgress::Complete),
                "{cut}"
            );
        }
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for body in [
        "\r\n",
        "g\r\n",
        "3 \r\nabc",
        "3;a=b\r\nabc",
        "+3\r\nabc",
        "0x3\r\nabc",
        "3\nabc",
        "3\r\nabcd\r\n",
        "3\r\nabc\n",
        "0\r\n folded\r\n\r\n",
        "0\r\nA: \0\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "1000000000000000\r\n",
    ] {
        assert_eq!(
            ChunkScanner::default().scan(body.as_bytes()).1,
            ScanProgress::Invalid,
            "{body:?}"
        );
    }
    let endless = format!("0\r\nA: {}\r\n\r\n", "x".repeat(MAX_TRAILER_BYTES));
    assert_eq!(
        ChunkScanner::default().scan(endless.as_bytes()).1,
        ScanProgress::Invalid
    );
}
