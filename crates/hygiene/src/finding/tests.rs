//! Tests of overlaps: the result is the same in any order, and no finding is shown.

use super::{Evidence, Finding, resolve};
use crate::kind::Kind;

fn finding(start: usize, end: usize, kind: Kind, by: Evidence) -> Finding {
    Finding { start, end, kind, by }
}

#[test]
fn the_higher_rank_stays_and_the_rest_of_the_other_is_kept() {
    let text = "Ann Lee <ann@example.com>";
    let name = finding(0, 25, Kind::Name, Evidence::Key);
    let email = finding(9, 24, Kind::Email, Evidence::Form);
    let expected = [finding(0, 7, Kind::Name, Evidence::Key), email];
    assert_eq!(resolve(text, vec![name, email]), expected);
    assert_eq!(resolve(text, vec![email, name]), expected);
}

#[test]
fn of_equals_the_longer_stays() {
    let text = "https://a.example/?m=b@c.example";
    let page = finding(0, 32, Kind::Url, Evidence::Form);
    let email = finding(21, 32, Kind::Email, Evidence::Form);
    assert_eq!(resolve(text, vec![email, page]), [page]);
}

#[test]
fn a_secret_within_is_cut_out_on_both_sides() {
    let text = "https://u:pw123456@h.example/x";
    let page = finding(0, 30, Kind::Url, Evidence::Form);
    let secret = finding(10, 18, Kind::Secret, Evidence::Form);
    let found = resolve(text, vec![page, secret]);
    let shown: Vec<_> = found.iter().map(|one| (one.kind, &text[one.start..one.end])).collect();
    assert_eq!(
        shown,
        [
            (Kind::Url, "https://u"),
            (Kind::Secret, "pw123456"),
            (Kind::Url, "h.example/x")
        ]
    );
}
