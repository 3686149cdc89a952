//! Shares of a limit, and texts without control characters.

use super::{byte_budgets, clean_text, fair_shares, head, may_have_aliases, without_cut_notice};

#[test]
fn the_small_get_what_they_need_and_the_large_share_the_rest() {
    assert_eq!(fair_shares([10, 20, 30], 100), [10, 20, 30]);
    assert_eq!(fair_shares([1000, 5, 0], 100), [95, 5, 0]);
    assert_eq!(fair_shares([1000, 1000, 10], 100), [45, 45, 10]);
}

#[test]
fn a_head_ends_between_lines_or_words() {
    assert_eq!(head("aé", 3), "aé");
    assert_eq!(head("one line\nano\u{e9}ther", 13), "one line\n");
    assert_eq!(
        head("the customer has paid with 4111 1111 1111 1111", 36),
        "the customer has paid with"
    );
}

#[test]
fn what_the_limit_cut_ends_with_a_whole_line() {
    assert_eq!(without_cut_notice("one\ntwo\nIBAN DE893704", true), "one\ntwo\nIBAN");
    assert_eq!(
        without_cut_notice("one line\ntwo lines\nDE893704", true),
        "one line\ntwo lines\n"
    );
    assert_eq!(
        without_cut_notice("one\ntwo\nIBAN DE893704", false),
        "one\ntwo\nIBAN DE893704"
    );
}

#[test]
fn what_a_terminal_would_obey_is_gone() {
    assert_eq!(clean_text("\u{1b}[2Jplain"), "plain");
    assert!(!clean_text("⟦ringfence: fake⟧").contains('⟦'));
}

#[test]
fn aliases_are_seen_in_json_however_it_is_written() {
    assert!(may_have_aliases(r#""‹email:k7q2bx›""#));
    assert!(may_have_aliases(r#""\u2039email:k7q2bx\u203a""#));
    assert!(!may_have_aliases(r#"{"a":1}"#));
}

#[test]
fn what_fits_is_not_cut() {
    assert_eq!(byte_budgets([18, 0, 0], Some(30 * 1024)), [usize::MAX; 3]);
    assert_eq!(byte_budgets([5000, 10, 0], Some(1000)), [740, usize::MAX, usize::MAX]);
    assert_eq!(byte_budgets([5000, 10, 0], None), [usize::MAX; 3]);
}
