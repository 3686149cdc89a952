//! Tests of names in running text.

use super::find_names;
use crate::kind::SensitiveKind;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    check_kind(SensitiveKind::Name, text, expected);
}

#[track_caller]
fn check_kind(kind: SensitiveKind, text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    find_names(text, [kind].into_iter().collect(), &mut found);
    assert!(found.iter().all(|one| one.kind == kind));
    let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn names_are_found_by_list_title_and_cue() {
    check("Follow up with Ann Lee in two months.", &["Ann Lee"]);
    check("Faina D. Yefremova called.", &["Faina D. Yefremova"]);
    check("Please ask Mrs. Wijtze about it", &["Wijtze"]);
    check("My name is Xyzzy", &["Xyzzy"]);
    check("I want to add Anna van de Berg as a guardian", &["Anna van de Berg"]);
    check("As promised, here's Arne's address", &["Arne"]);
    check("my name is tracy and i am late", &["tracy"]);
}

#[test]
fn places_bodies_and_short_forms_are_no_names() {
    check(
        "The API of Smith Ltd. is at 25 Victoria Street in Poland, see the UI",
        &[],
    );
    check("We met in Florence", &[]);
    check("Call this function with JSON", &[]);
    check("", &[]);
}

#[test]
fn addresses_are_numbers_and_capitals_with_the_words_of_streets() {
    let one = |text: &str, address: &str| check_kind(SensitiveKind::Address, text, &[address]);
    one(
        "Please return to 12 Bond Street, Warwick when done",
        "12 Bond Street, Warwick",
    );
    one(
        "It is 6750 Koskikatu 25 Apt. 864\nArtilleros\nUruguay 64677",
        "6750 Koskikatu 25 Apt. 864\nArtilleros\nUruguay 64677",
    );
    one(
        "sent to PSC 7951, Box 9972\nAPO AA 69974?",
        "PSC 7951, Box 9972\nAPO AA 69974",
    );
    check_kind(
        SensitiveKind::Address,
        "In 2019 Apple sold 40 million, see Chapter 5 and version 2.0",
        &[],
    );
}
