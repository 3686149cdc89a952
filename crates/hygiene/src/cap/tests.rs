//! Tests of notices and cuts.

use super::{MoreLocation, format_notice, group_thousands, trim_partial_line, truncate_at_word};

#[test]
fn a_notice_says_where_the_whole_is_in_brackets_of_its_own() {
    assert_eq!(format_notice("3 rows left out", None), "⟦ringfence: 3 rows left out⟧");
    assert_eq!(
        format_notice("3 rows left out", Some(MoreLocation::Whole("ringfence://a⟧\n/b"))),
        "⟦ringfence: 3 rows left out; the whole is at ringfence://a]/b⟧"
    );
    assert_eq!(
        format_notice("3 rows left out", Some(MoreLocation::Kept("ringfence://a"))),
        "⟦ringfence: 3 rows left out; there was more, and as much as was kept is at ringfence://a⟧"
    );
    assert_eq!(group_thousands(1_234_567), "1,234,567");
    assert_eq!(group_thousands(12), "12");
}

#[test]
fn half_a_value_is_never_kept() {
    for cut in 22..44 {
        let text = "the customer has paid with 4532 2766 4457 7020 today";
        let kept = truncate_at_word(text, cut);
        assert!(!kept.contains('4'), "{kept}");
    }
    assert_eq!(
        truncate_at_word("write to the one called ann@example.com", 30),
        "write to the one called"
    );
    assert_eq!(truncate_at_word("short", 10), "short");
    let long = "x".repeat(1000);
    assert_eq!(truncate_at_word(&long, 500).len(), 436);
    assert_eq!(truncate_at_word(&"1".repeat(1000), 500), "");
    assert_eq!(truncate_at_word("ééééé", 3), "");
}

#[test]
fn what_was_cut_elsewhere_ends_with_a_whole_line_or_word() {
    for (text, kept) in [
        ("one line\ntwo lines\nDE893704", "one line\ntwo lines\n"),
        (
            "one\nthen a very long line with DE893704",
            "one\nthen a very long line with",
        ),
        ("one\n", "one\n"),
        ("", ""),
    ] {
        assert_eq!(trim_partial_line(text), kept);
    }
}

#[test]
fn half_an_account_is_never_kept() {
    for number in [
        "GB82 WEST 1234 5698 7654 32",
        "gb82\u{a0}west\u{a0}1234\u{a0}5698\u{a0}7654\u{a0}32",
        "MT84 MALT 0110 0001 2345 MTLC AST0 01S",
    ] {
        let text = format!("please pay the whole sum of the invoice to the account {number} today");
        let begin = text.find(number).unwrap();
        for cut in begin + 1..begin + number.len() {
            let kept = truncate_at_word(&text, cut);
            assert_eq!(kept, "please pay the whole sum of the invoice to the account", "{cut}");
        }
        let whole = truncate_at_word(&text, begin + number.len() + 3);
        assert!(
            !whole.to_uppercase().contains("WEST") && !whole.contains("MALT") || whole.ends_with(number),
            "{whole}"
        );
    }
    assert_eq!(
        truncate_at_word("it was in de20 that we met, said he", 30),
        "it was in de20 that we met,"
    );
}
