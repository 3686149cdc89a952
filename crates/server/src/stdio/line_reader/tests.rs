use super::{BoundedLines, InputLine};

async fn check(input: &[u8], longest: usize, expected: &[InputLine]) {
    let mut lines = BoundedLines::new(tokio::io::BufReader::with_capacity(3, input), longest);
    for line in expected {
        assert_eq!(lines.next_line().await.unwrap(), *line);
    }
    assert_eq!(lines.next_line().await.unwrap(), InputLine::End);
}

fn whole(text: &str) -> InputLine {
    InputLine::Whole(text.as_bytes().to_vec())
}

#[tokio::test]
async fn lines_come_one_by_one() {
    check(b"one\n\ntwo\n", 8, &[whole("one"), whole(""), whole("two")]).await;
}

#[tokio::test]
async fn a_line_without_an_end_is_none() {
    check(b"one\ntwo", 8, &[whole("one")]).await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_dropped_and_the_next_is_read() {
    let too_long = InputLine::TooLong {
        head: b"012345".to_vec(),
        tail: b"678".to_vec(),
    };
    check(b"012345678\nnext\n", 8, &[too_long, whole("next")]).await;
}

#[tokio::test]
async fn memory_stays_bounded_however_long_a_line_is() {
    let flood = vec![b'x'; 4 * 1024 * 1024];
    let mut lines = BoundedLines::new(tokio::io::BufReader::new(flood.as_slice()), 64 * 1024);
    assert_eq!(lines.next_line().await.unwrap(), InputLine::End);
    assert!(lines.buffered.capacity() + lines.tail.capacity() < 256 * 1024);
}
