//! Tests of values under keys.

use super::{Ground, borne_out, looks_named};
use crate::kind::Kind;

fn whole(value: &str, kind: Kind) -> Option<(usize, usize)> {
    borne_out(value, kind, Ground::Key)
}

#[track_caller]
fn check(value: &str, kind: Kind, good: bool) {
    assert_eq!(whole(value, kind).is_some(), good, "{value} as {kind}");
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
    check("correct horse battery staple", Kind::Secret, true);
    for secret in [
        "$ecret!", "%pass", "<pw>", "{x", "[x]", "your dog", "example1", "changeme", "redacted", "abc", "1",
    ] {
        check(secret, Kind::Secret, true);
    }
    check(&"c=1; ".repeat(100), Kind::Secret, true);
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
        check(none, Kind::Secret, false);
    }
    check("********", Kind::Secret, false);
    check("‹name:k7q2bb›", Kind::Name, false);
    check("⟦secret removed⟧", Kind::Secret, false);
    check(&"x".repeat(500), Kind::Address, false);
    assert_eq!(whole("  Ann ", Kind::Name), Some((2, 5)));
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
        assert_eq!(whole(&value, Kind::Address), Some((0, end)), "{value}");
    }
    assert_eq!(
        whole("GB82⟦ringfence: 29 of 56 bytes left out⟧", Kind::Iban),
        Some((0, 4))
    );
    check("Ann ‹x› Lee", Kind::Name, true);
    check("⟦Ann Lee⟧", Kind::Name, true);
    check("‹Ann Lee›", Kind::Name, true);
}

#[test]
fn a_key_is_believed_where_the_value_can_be_at_all() {
    for (value, kind) in [
        ("ann@intranet", Kind::Email),
        ("ann%40example.com", Kind::Email),
        ("ann&#64;example.com", Kind::Email),
        ("Ann Lee <ann@example.com>", Kind::Email),
        ("ann [AT] example.com", Kind::Email),
        ("ann at example dot com", Kind::Email),
        ("ann@intranet, bo@example.com", Kind::Email),
        ("tel:+49%20170%20123", Kind::Phone),
        ("555-0100 (after six, ask for Ann)", Kind::Phone),
        ("SSN: 403-57-9558", Kind::Ssn),
        ("***-**-9558", Kind::Ssn),
        ("IBAN GB82", Kind::Iban),
        ("Visa ending 4242", Kind::Card),
        ("No. 12", Kind::NationalId),
    ] {
        assert_eq!(whole(value, kind), Some((0, value.len())), "{value}");
    }
    for (value, kind) in [
        ("see the list", Kind::Email),
        ("ann@example.com, bo@example.com", Kind::Email),
        ("ask the office", Kind::Phone),
        ("on file", Kind::Ssn),
        ("Visa", Kind::Card),
    ] {
        check(value, kind, false);
    }
    assert_eq!(borne_out("see page 12 to 14", Kind::Phone, Ground::Label), None);
    assert_eq!(borne_out("write to me @ home", Kind::Email, Ground::Label), None);
    assert_eq!(borne_out("ann@intranet", Kind::Email, Ground::Label), Some((0, 12)));
}
