//! Names in running text.

use super::find;
use crate::kind::Kinds;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    find(text, Kinds::all(), &mut found);
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
