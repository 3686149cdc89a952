//! Tests of values under keys.

use super::{HintSource, confirmed_part, looks_named};
use crate::kind::SensitiveKind;

fn whole(value: &str, kind: SensitiveKind) -> Option<(usize, usize)> {
    confirmed_part(value, kind, HintSource::Key)
}

#[track_caller]
fn check(value: &str, kind: SensitiveKind, good: bool) {
    assert_eq!(whole(value, kind).is_some(), good, "{value} as {kind}");
}

#[test]
fn values_that_cannot_be_are_left() {
    check("78 651 450", SensitiveKind::Phone, true);
    check("ask the office", SensitiveKind::Phone, false);
    check("n/a", SensitiveKind::Name, false);
    check("José", SensitiveKind::Name, true);
    check("https://example.com", SensitiveKind::Name, false);
    check("10.1.2.3", SensitiveKind::Ip, true);
    check("localhost", SensitiveKind::Ip, false);
    check("hunter2!", SensitiveKind::Secret, true);
    check("correct horse battery staple", SensitiveKind::Secret, true);
    for secret in [
        "$ecret!", "%pass", "<pw>", "{x", "[x]", "your dog", "example1", "changeme", "redacted", "abc", "1",
    ] {
        check(secret, SensitiveKind::Secret, true);
    }
    check(&"c=1; ".repeat(100), SensitiveKind::Secret, true);
    for none in [
        "",
        " ",
        "false",
        "null",
        "${PASSWORD}",
        "{{ vault.password }}",
        "env:DB_PASSWORD",
        "vault:db",
        "[redacted]",
        "$DB_PASSWORD",
        "%DB_PASSWORD%",
    ] {
        check(none, SensitiveKind::Secret, false);
    }
    check("********", SensitiveKind::Secret, false);
    check("‹name:k7q2bb›", SensitiveKind::Name, false);
    check("⟦secret removed⟧", SensitiveKind::Secret, false);
    check(&"x".repeat(500), SensitiveKind::Address, false);
    assert_eq!(whole("  Ann ", SensitiveKind::Name), Some((2, 5)));
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

#[test]
fn brackets_of_ours_hide_no_value() {
    let address = "12 Long Street, Oulu";
    for (notice, ours) in [
        ("⟦ringfence: 29 of 1,056 bytes left out⟧", true),
        (
            "⟦ringfence: 29 of 56 bytes left out; the whole is at ringfence://out/1⟧",
            true,
        ),
        ("⟦ringfence: all is well⟧", false),
        ("⟦ringfence: 29 of 56 bytes left out; x⟧ Oulu⟧", false),
    ] {
        let value = format!("{address}{notice}");
        let end = if ours { address.len() } else { value.len() };
        assert_eq!(whole(&value, SensitiveKind::Address), Some((0, end)), "{value}");
    }
    assert_eq!(
        whole("GB82⟦ringfence: 29 of 56 bytes left out⟧", SensitiveKind::Iban),
        Some((0, 4))
    );
    check("Ann ‹x› Lee", SensitiveKind::Name, true);
    check("⟦Ann Lee⟧", SensitiveKind::Name, true);
    check("‹Ann Lee›", SensitiveKind::Name, true);
}

#[test]
fn a_key_is_believed_where_the_value_can_be_at_all() {
    for (value, kind) in [
        ("ann@intranet", SensitiveKind::Email),
        ("ann%40example.com", SensitiveKind::Email),
        ("ann&#64;example.com", SensitiveKind::Email),
        ("Ann Lee <ann@example.com>", SensitiveKind::Email),
        ("ann [AT] example.com", SensitiveKind::Email),
        ("ann at example dot com", SensitiveKind::Email),
        ("ann@intranet, bo@example.com", SensitiveKind::Email),
        ("tel:+49%20170%20123", SensitiveKind::Phone),
        ("555-0100 (after six, ask for Ann)", SensitiveKind::Phone),
        ("SSN: 403-57-9558", SensitiveKind::Ssn),
        ("***-**-9558", SensitiveKind::Ssn),
        ("IBAN GB82", SensitiveKind::Iban),
        ("Visa ending 4242", SensitiveKind::Card),
        ("No. 12", SensitiveKind::NationalId),
    ] {
        assert_eq!(whole(value, kind), Some((0, value.len())), "{value}");
    }
    for (value, kind) in [
        ("see the list", SensitiveKind::Email),
        ("ann@example.com, bo@example.com", SensitiveKind::Email),
        ("ask the office", SensitiveKind::Phone),
        ("on file", SensitiveKind::Ssn),
        ("Visa", SensitiveKind::Card),
    ] {
        check(value, kind, false);
    }
    assert_eq!(
        confirmed_part("see page 12 to 14", SensitiveKind::Phone, HintSource::Label),
        None
    );
    assert_eq!(
        confirmed_part("write to me @ home", SensitiveKind::Email, HintSource::Label),
        None
    );
    assert_eq!(
        confirmed_part("ann@intranet", SensitiveKind::Email, HintSource::Label),
        Some((0, 12))
    );
}
