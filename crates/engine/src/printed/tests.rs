use super::*;

fn text(news: &News) -> &str {
    &news.text[news.from..]
}

#[test]
fn news_are_whole_lines_and_come_once_to_those_who_ask_for_what_is_new() {
    let mut printed = Printed::default();
    printed.add(Stream::Stdout, b"one\ntw");
    assert_eq!(text(&printed.untold().stdout), "one\n");
    assert_eq!(printed.untold().stdout, News::default());
    printed.add(Stream::Stdout, b"o\n");
    let look = printed.untold();
    assert_eq!((look.stdout.text.as_str(), look.stdout.from), ("one\ntwo\n", 4));
}

#[test]
fn a_reader_takes_nothing_from_another() {
    let mut printed = Printed::default();
    printed.add(Stream::Stdout, b"one\n");
    printed.add(Stream::Stderr, b"bad\n");
    assert_eq!(text(&printed.untold().stdout), "one\n");
    for _ in 0..2 {
        let look = printed.after(OutputCursor::default());
        assert_eq!((text(&look.stdout), text(&look.stderr)), ("one\n", "bad\n"));
        assert_eq!(look.next.to_string(), "4-4");
        let place: OutputCursor = "4-0".parse().unwrap();
        let look = printed.after(place);
        assert_eq!((text(&look.stdout), text(&look.stderr)), ("", "bad\n"));
    }
    for text in ["", "4", "4-", "-4", "4-x", "1-2-3"] {
        assert_eq!(text.parse::<OutputCursor>(), Err(OutputCursorError), "{text}");
    }
    // A place that is further than anything was printed gets nothing.
    let far: OutputCursor = "99-99".parse().unwrap();
    assert_eq!(printed.after(far).next, far);
}

#[test]
fn who_follows_gets_the_last_half_line_too_and_then_it_is_forgotten() {
    let mut printed = Printed::default();
    printed.follow();
    printed.add(Stream::Stdout, b"one\nhalf");
    let first = printed.after(OutputCursor::default());
    assert_eq!(text(&first.stdout), "one\n");
    printed.end();
    let last = printed.after(first.next);
    assert_eq!(text(&last.stdout), "half");
    printed.leave();
    assert_eq!(printed.after(first.next).stdout, News::default());
}
