use super::{clean_text, summary};

#[test]
fn a_summary_is_the_first_sentence_on_one_line() {
    assert_eq!(summary("Reads a\nfile v1.2. Then more."), "Reads a file v1.2.");
    assert_eq!(summary("读取文件。然后"), "读取文件。");
    assert_eq!(summary(""), "");
    assert_eq!(summary(&"x".repeat(500)).chars().count(), 160);
}

#[test]
fn what_cannot_be_seen_is_not_shown() {
    let hostile = "a\u{202e}b\u{200b}c\u{7}d\u{e0041}e\u{1b}[31mf\u{feff}";
    assert_eq!(clean_text(hostile), "abcde[31mf");
    assert_eq!(summary(hostile), "abcde[31mf");
}

#[test]
fn a_whole_text_is_capped() {
    assert_eq!(clean_text(&"é".repeat(1_000_000)).chars().count(), 2_000);
    assert_eq!(clean_text("a\n b"), "a\n b");
}
