use super::*;

#[test]
fn blank_looking_letters_are_unseen() {
    // The Braille blank, the Hangul fillers, a direction override, a variation selector, a tag.
    for blank in [
        '\u{2800}',
        '\u{115f}',
        '\u{1160}',
        '\u{3164}',
        '\u{ffa0}',
        '\u{202e}',
        '\u{fe0f}',
        '\u{e0041}',
    ] {
        assert!(is_invisible(blank), "{}", blank.escape_unicode());
    }
    for seen in ['a', ' ', 'é', '中', '⠁', '\u{1100}'] {
        assert!(!is_invisible(seen), "{}", seen.escape_unicode());
    }
}

#[test]
fn a_name_is_shown_on_one_line_with_nothing_hidden() {
    let name = "a\nb\r\tc\u{1b}[2J\u{202e}txt.\u{2800}exe ü";
    assert_eq!(
        escape_invisible(name),
        "a\\nb\\r\\tc\\u{1b}[2J\\u{202e}txt.\\u{2800}exe ü"
    );
    assert_eq!(escape_invisible("report.csv"), "report.csv");
}
