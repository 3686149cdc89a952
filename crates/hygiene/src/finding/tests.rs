//! Tests of overlaps: the result is the same in any order, and no finding is shown.

use super::{Evidence, SensitiveSpan, resolve_overlaps};
use crate::kind::SensitiveKind;

fn finding(start: usize, end: usize, kind: SensitiveKind, by: Evidence) -> SensitiveSpan {
    SensitiveSpan { start, end, kind, by }
}

#[test]
fn the_higher_rank_stays_and_the_rest_of_the_other_is_kept() {
    let text = "Ann Lee <ann@example.com>";
    let name = finding(0, 25, SensitiveKind::Name, Evidence::Key);
    let email = finding(9, 24, SensitiveKind::Email, Evidence::Form);
    let expected = [finding(0, 7, SensitiveKind::Name, Evidence::Key), email];
    assert_eq!(resolve_overlaps(text, vec![name, email]), expected);
    assert_eq!(resolve_overlaps(text, vec![email, name]), expected);
}

#[test]
fn of_equals_the_longer_stays() {
    let text = "https://a.example/?m=b@c.example";
    let page = finding(0, 32, SensitiveKind::Url, Evidence::Form);
    let email = finding(21, 32, SensitiveKind::Email, Evidence::Form);
    assert_eq!(resolve_overlaps(text, vec![email, page]), [page]);
}

#[test]
fn a_secret_within_is_cut_out_on_both_sides() {
    let text = "https://u:pw123456@h.example/x";
    let page = finding(0, 30, SensitiveKind::Url, Evidence::Form);
    let secret = finding(10, 18, SensitiveKind::Secret, Evidence::Form);
    let found = resolve_overlaps(text, vec![page, secret]);
    let shown: Vec<_> = found.iter().map(|one| (one.kind, &text[one.start..one.end])).collect();
    assert_eq!(
        shown,
        [
            (SensitiveKind::Url, "https://u"),
            (SensitiveKind::Secret, "pw123456"),
            (SensitiveKind::Url, "h.example/x")
        ]
    );
}
