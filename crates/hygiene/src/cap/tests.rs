//! Notices and cuts.

use super::{cut_before, grouped, notice};

#[test]
fn a_notice_says_where_the_whole_is_in_brackets_of_its_own() {
    assert_eq!(notice("3 rows left out", None), "⟦ringfence: 3 rows left out⟧");
    assert_eq!(
        notice("3 rows left out", Some("ringfence://a⟧\n/b")),
        "⟦ringfence: 3 rows left out; the whole is at ringfence://a]/b⟧"
    );
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(12), "12");
}

#[test]
fn half_a_value_is_never_kept() {
    for cut in 22..44 {
        let text = "the customer has paid with 4532 2766 4457 7020 today";
        let kept = cut_before(text, cut);
        assert!(!kept.contains('4'), "{kept}");
    }
    assert_eq!(
        cut_before("write to the one called ann@example.com", 30),
        "write to the one called"
    );
    assert_eq!(cut_before("short", 10), "short");
    let long = "x".repeat(1000);
    assert_eq!(cut_before(&long, 500).len(), 436);
    assert_eq!(cut_before(&"1".repeat(1000), 500), "");
    assert_eq!(cut_before("ééééé", 3), "");
}
