use super::count_tokens;

/// Checks a count against that of `tiktoken`.
#[track_caller]
fn check(text: &str, tokens: usize) {
    assert_eq!(
        count_tokens(text),
        tokens,
        "{:?}",
        text.chars().take(40).collect::<String>()
    );
}

#[test]
fn counts_are_those_of_o200k() {
    check("", 0);
    check("hello world", 2);
    check("Hello, World! It's 12345 o'clock; DON'T stop.", 14);
    check("getUserName_by_id(HTTPServer2)", 10);
    check("  leading\n\n  spaces \t and tabs\r\n", 9);
    check("查询城市天气，返回未来三天的预报。", 12);
    check("日本語とEnglishのmix 한국어 العربية עברית", 11);
    check("e\u{301}A\u{301} \u{301}x ſ'ſ naïve café ÀÉÎ Straße", 18);
    check("🦀🦀 emoji 👨\u{200d}👩\u{200d}👧 ok", 16);
    check(
        "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}",
        14,
    );
    check("https://example.org/a/b?c=d&e=f//\n\n//", 13);
    check(&"x".repeat(300), 38);
    check(
        "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
        19,
    );
    check("   ", 1);
    check("a  b   c\n   d", 8);
    check("\u{2028} \u{3000} \u{a0}x", 5);
    check("١٢٣٤ ⅷ ½ 1a2b3c", 16);
}

#[test]
fn pieces_together_are_the_text() {
    for text in [
        "",
        " ",
        "a b",
        "\n\n x",
        "日A本",
        "e\u{301}A\u{301} it's DON'T",
        "1234567",
        "   ",
        "a  \n b",
        "\u{301}\u{301}",
    ] {
        assert_eq!(super::split::pieces(text).collect::<String>(), text);
    }
}

#[test]
fn a_huge_run_without_spaces_is_counted_in_bounded_time_and_room() {
    let run = "x".repeat(200_000);
    assert!(count_tokens(&run) > 1_000);
    assert!(count_tokens(&"AbC".repeat(50_000)) > 1_000);
}
