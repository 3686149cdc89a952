use super::*;

fn text(printed: &OutputBuffer, stream: ProgramStream, from: usize) -> String {
    String::from_utf8(printed.between(stream, from, usize::MAX)).unwrap()
}

#[test]
fn what_can_be_told_is_whole_lines_until_the_end() {
    let mut printed = OutputBuffer::default();
    printed.append(ProgramStream::Stdout, b"one\ntw");
    assert_eq!(text(&printed, ProgramStream::Stdout, 0), "one\n");
    assert_eq!(text(&printed, ProgramStream::Stdout, 4), "");
    printed.append(ProgramStream::Stdout, b"o\n");
    assert_eq!(text(&printed, ProgramStream::Stdout, 4), "two\n");
    assert_eq!(printed.between(ProgramStream::Stdout, 0, 4), b"one\n");
}

#[test]
fn a_reader_takes_nothing_from_another() {
    let mut printed = OutputBuffer::default();
    printed.append(ProgramStream::Stdout, b"one\n");
    printed.append(ProgramStream::Stderr, b"bad\n");
    for _ in 0..2 {
        assert_eq!(text(&printed, ProgramStream::Stdout, 0), "one\n");
        assert_eq!(text(&printed, ProgramStream::Stderr, 0), "bad\n");
        assert_eq!(printed.end_of().to_string(), "4-4");
        let place: OutputCursor = "4-0".parse().unwrap();
        assert!(place.is_before(printed.end_of()));
        assert_eq!(
            text(&printed, ProgramStream::Stdout, place.offset_of(ProgramStream::Stdout)),
            ""
        );
    }
    for text in ["", "4", "4-", "-4", "4-x", "1-2-3"] {
        assert_eq!(text.parse::<OutputCursor>(), Err(OutputCursorError), "{text}");
    }
    // A cursor beyond the output gets nothing.
    let far: OutputCursor = "99-99".parse().unwrap();
    assert!(!far.is_before(printed.end_of()) && text(&printed, ProgramStream::Stdout, 99).is_empty());
}

#[test]
fn who_follows_gets_the_last_half_line_too_and_then_it_is_forgotten() {
    let mut printed = OutputBuffer::default();
    printed.add_follower();
    printed.append(ProgramStream::Stdout, b"one\nhalf");
    assert_eq!(text(&printed, ProgramStream::Stdout, 0), "one\n");
    printed.end();
    assert_eq!(text(&printed, ProgramStream::Stdout, 4), "half");
    printed.remove_follower();
    assert_eq!(text(&printed, ProgramStream::Stdout, 4), "");
}
