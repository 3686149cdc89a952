//! Whether values bear their keys out.

use super::{borne_out, looks_named};
use crate::kind::Kind;

#[track_caller]
fn check(value: &str, kind: Kind, good: bool) {
    assert_eq!(borne_out(value, kind).is_some(), good, "{value} as {kind}");
}

#[test]
fn values_that_cannot_be_are_left() {
    check("78 651 450", Kind::Phone, true);
    check("ask the office", Kind::Phone, false);
    check("n/a", Kind::Name, false);
    check("José", Kind::Name, true);
    check("https://example.com", Kind::Name, false);
    check("10.1.2.3", Kind::Ip, true);
    check("localhost", Kind::Ip, false);
    check("hunter2!", Kind::Secret, true);
    check("<your password>", Kind::Secret, false);
    check("********", Kind::Secret, false);
    check("‹name:k7q2bb›", Kind::Name, false);
    check(&"x".repeat(500), Kind::Address, false);
    assert_eq!(borne_out("  Ann ", Kind::Name), Some((2, 5)));
}

#[test]
fn what_looks_named() {
    for value in ["Ann", "tracy sukhorukova", "Faina D. Yefremova", "O'Brien-Smith"] {
        assert!(looks_named(value), "{value}");
    }
    for value in ["README.md", "web_search", "v2", "a b c d e f g", ""] {
        assert!(!looks_named(value), "{value}");
    }
}
