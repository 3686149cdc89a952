use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(raw: &str, clean: &str) {
    assert_eq!(Text::clean(raw).as_str(), clean);
}

#[test]
fn what_could_forge_a_line_is_escaped() {
    check("plain ünïcode ✓", "plain ünïcode ✓");
    check("a\nb\r\tc", "a\\nb\\r\\tc");
    check("\x1b[2J\x07", "\\u{1b}[2J\\u{7}");
    check("\0", "\\u{0}");
    check("\u{9b}31m", "\\u{9b}31m");
    check("abc\u{202e}fdp", "abc\\u{202e}fdp");
    check("a\u{2028}b\u{feff}", "a\\u{2028}b\\u{feff}");
}

#[test]
fn long_text_is_cut_and_says_so() {
    let exact = "x".repeat(Text::LIMIT);
    check(&exact, &exact);
    let cut = Text::clean(&"x".repeat(Text::LIMIT + 1));
    assert_eq!(cut.as_str().len(), Text::LIMIT);
    assert!(cut.as_str().ends_with('…'));
    assert!(Text::clean_bytes(&vec![b'x'; 100_000]).as_str().ends_with('…'));
    assert_eq!(Text::clean_bytes(b"\xff\xfe").as_str(), "\u{fffd}\u{fffd}");
}

#[test]
fn text_that_was_never_cleaned_does_not_read_back() {
    assert!(serde_json::from_str::<Text>(r#""a\nb""#).is_err());
    assert!(serde_json::from_str::<Text>(&format!("\"{}\"", "x".repeat(5000))).is_err());
    assert!(serde_json::from_str::<Text>(r#""fine""#).is_ok());
}

proptest! {
    #[test]
    fn cleaning_is_capped_idempotent_and_reads_back(raw in any::<String>()) {
        let clean = Text::clean(&raw.repeat(40));
        prop_assert!(clean.as_str().len() <= Text::LIMIT);
        prop_assert_eq!(&Text::clean(clean.as_str()), &clean);
        let json = serde_json::to_string(&clean).unwrap();
        prop_assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), clean);
    }

    #[test]
    fn pieces_lose_nothing(raw in any::<String>()) {
        let raw = raw.repeat(40);
        let mut whole = String::new();
        raw.chars().for_each(|character| push(&mut whole, character));
        let joined: String = Text::pieces(&raw).iter().map(Text::as_str).collect();
        prop_assert_eq!(joined, whole);
        prop_assert!(Text::pieces(&raw).iter().all(|piece| piece.as_str().len() <= Text::LIMIT));
    }
}
