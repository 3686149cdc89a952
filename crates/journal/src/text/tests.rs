use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(raw: &str, clean: &str) {
    assert_eq!(CleanText::clean(raw).as_str(), clean);
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
    let exact = "x".repeat(CleanText::MAX_BYTES);
    check(&exact, &exact);
    let cut = CleanText::clean(&"x".repeat(CleanText::MAX_BYTES + 1));
    assert_eq!(cut.as_str().len(), CleanText::MAX_BYTES);
    assert!(cut.as_str().ends_with('…'));
    assert!(CleanText::clean_bytes(&vec![b'x'; 100_000]).as_str().ends_with('…'));
    assert_eq!(CleanText::clean_bytes(b"\xff\xfe").as_str(), "\u{fffd}\u{fffd}");
}

#[test]
fn text_that_was_never_cleaned_does_not_read_back() {
    assert!(serde_json::from_str::<CleanText>(r#""a\nb""#).is_err());
    assert!(serde_json::from_str::<CleanText>(&format!("\"{}\"", "x".repeat(5000))).is_err());
    assert!(serde_json::from_str::<CleanText>(r#""fine""#).is_ok());
}

proptest! {
    #[test]
    fn cleaning_is_capped_idempotent_and_reads_back(raw in any::<String>()) {
        let clean = CleanText::clean(&raw.repeat(40));
        prop_assert!(clean.as_str().len() <= CleanText::MAX_BYTES);
        prop_assert_eq!(&CleanText::clean(clean.as_str()), &clean);
        let json = serde_json::to_string(&clean).unwrap();
        prop_assert_eq!(serde_json::from_str::<CleanText>(&json).unwrap(), clean);
    }

    #[test]
    fn pieces_lose_nothing(raw in any::<String>()) {
        let raw = raw.repeat(40);
        let mut whole = String::new();
        raw.chars().for_each(|character| push_escaped(&mut whole, character));
        let joined: String = CleanText::pieces(&raw).iter().map(CleanText::as_str).collect();
        prop_assert_eq!(joined, whole);
        prop_assert!(CleanText::pieces(&raw).iter().all(|piece| piece.as_str().len() <= CleanText::MAX_BYTES));
    }
}
