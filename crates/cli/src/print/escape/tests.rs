use super::{Escaper, escape_indented, escape_json, escape_own, escape_text};

fn check(pieces: &[&[u8]], expected: &str) {
    let mut escaper = Escaper::default();
    let mut shown: String = pieces.iter().map(|piece| escaper.escape(piece)).collect();
    shown.push_str(&escaper.finish());
    assert_eq!(shown, expected, "{pieces:?}");
}

#[test]
fn what_a_terminal_would_obey_is_shown() {
    let cases: [(&[u8], &str); 10] = [
        (b"plain\n\ttext\r\n", "plain\n\ttext\r\n"),
        (b"\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        (b"\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
        (b"\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        (b"over\rwritten", "over\\x0dwritten"),
        (b"a\x08b\x7f", "a\\x08b\\x7f"),
        (b"\x9b31m", "\\x9b31m"),
        ("\u{9b}31m".as_bytes(), "\\x9b31m"),
        ("gr\u{fc}n \u{202e}evil".as_bytes(), "gr\u{fc}n \\u{202e}evil"),
        (b"\xff\xfe\0", "\\xff\\xfe\\x00"),
    ];
    for (bytes, expected) in cases {
        check(&[bytes], expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        check(&single, expected);
    }
}

#[test]
fn a_character_split_between_pieces_stays_whole() {
    check(
        &[b"\xe2\x82", b"\xac and ", b"\xf0\x9f", b"\x98\x80"],
        "\u{20ac} and \u{1f600}",
    );
    check(&[b"cut \xe2\x82"], "cut \\xe2\\x82");
    check(&[b"line\r", b"\nnext"], "line\r\nnext");
    check(&[b"line\r", b"next\r"], "line\\x0dnext\\x0d");
}

#[test]
fn our_own_lines_quote_a_program_harmlessly() {
    assert_eq!(escape_text("two\nlines \u{1b}[1m"), "two\nlines \\x1b[1m");
}

#[test]
fn json_stays_the_same_value() {
    let value = serde_json::json!(["\u{9b}", "\u{202e}", "\u{7f}", "ok"]);
    let shown = escape_json(&value.to_string());
    assert!(shown.is_ascii(), "{shown}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok(), Some(value));
}

#[test]
fn what_hides_in_text_is_shown_and_what_writing_needs_stays() {
    let hidden = "a\u{200b}b\u{2066}c\u{e0041}d\u{ad}e";
    assert_eq!(escape_text(hidden), "a\\u{200b}b\\u{2066}c\\u{e0041}d\\xade");
    let family = "\u{1f468}\u{200d}\u{1f469} \u{2764}\u{fe0f} \u{646}\u{200c}\u{647}";
    assert_eq!(escape_text(family), family);
    let quoted = format!("\"{hidden}\"");
    let parsed: String = serde_json::from_str(&escape_json(&quoted)).unwrap();
    assert_eq!(parsed, hidden);
    assert!(escape_json(&quoted).is_ascii());
}

#[test]
fn a_line_feed_in_a_word_of_others_begins_no_line_of_ours() {
    assert_eq!(escape_indented("no\nrule: x\n"), "no\n  rule: x\n  ");
}

#[test]
fn only_colours_of_our_own_reach_a_terminal() {
    let own = ["\u{1b}[32m", "\u{1b}[0m"];
    let mixed = "\u{1b}[32mheld\u{1b}[0m \u{1b}]0;t\u{7} \u{1b}[31mred \u{202e}x";
    let shown = "\u{1b}[32mheld\u{1b}[0m \\x1b]0;t\\x07 \\x1b[31mred \\u{202e}x";
    assert_eq!(escape_own(mixed, &own), shown);
    assert_eq!(escape_own("\u{1b}[32mno\u{1b}", &[]), "\\x1b[32mno\\x1b");
}
