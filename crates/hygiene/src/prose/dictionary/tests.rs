//! Tests of the list of names.

use super::{NAMES, look_up};

#[test]
fn the_list_is_in_order() {
    let names: Vec<&str> = NAMES.lines().collect();
    assert!(names.is_sorted_by(|one, two| one.as_bytes()[..one.len() - 1] < two.as_bytes()[..two.len() - 1]));
    assert!(
        names
            .iter()
            .all(|line| line.ends_with(|digit: char| ('1'..='7').contains(&digit)))
    );
}

#[test]
fn names_are_known_in_any_case_and_with_marks() {
    for name in ["John", "JOHN", "josé", "Jose", "Anne-Marie", "Šárka"] {
        assert!(look_up(name).given(), "{name}");
    }
    assert!(look_up("Garcia").family() && !look_up("Garcia").common());
    assert!(look_up("Will").common());
    assert!(look_up("Ásgeirsdóttir").family());
    assert!(!look_up("Qqqq").any() && !look_up("").any() && !look_up("Ω").any());
    assert!(!look_up(&"a".repeat(100)).any());
}
