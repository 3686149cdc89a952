//! Tests of the list of names.

use super::{NAME_LIST, look_up};

#[test]
fn the_list_is_in_order() {
    let names: Vec<&str> = NAME_LIST.lines().collect();
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
        assert!(look_up(name).is_given(), "{name}");
    }
    assert!(look_up("Garcia").is_family() && !look_up("Garcia").is_common_word());
    assert!(look_up("Will").is_common_word());
    assert!(look_up("Ásgeirsdóttir").is_family());
    assert!(!look_up("Qqqq").is_name() && !look_up("").is_name() && !look_up("Ω").is_name());
    assert!(!look_up(&"a".repeat(100)).is_name());
}
