//! Tests of custom kinds.

use std::sync::Arc;

use super::{CustomCheck, CustomKind, CustomKindError};

#[track_caller]
fn check(own: &CustomKind, text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    own.find(text, &mut found);
    let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_expression_and_a_check() {
    let plain = CustomKind::new("badge", r"\bB-\d{4}\b", CustomCheck::None).unwrap();
    check(&plain, "B-1234 and B-12", &["B-1234"]);
    let part = CustomKind::new("badge", r"badge (?<value>\d+)", CustomCheck::Luhn).unwrap();
    check(&part, "badge 79927398713, badge 79927398714", &["79927398713"]);
    let even = CustomKind::new(
        "even",
        r"\d+",
        CustomCheck::Predicate(Arc::new(|value| value.ends_with(['0', '2', '4', '6', '8']))),
    )
    .unwrap();
    check(&even, "1 2 3 4", &["2", "4"]);
    assert_eq!(
        format!("{even:?}"),
        "Own { name: \"even\", pattern: \"\\\\d+\", check: By }"
    );
}

#[test]
fn what_cannot_be_looked_for_is_refused() {
    assert!(matches!(
        CustomKind::new("email", "x", CustomCheck::None),
        Err(CustomKindError::Name { .. })
    ));
    assert!(matches!(
        CustomKind::new("Two Words", "x", CustomCheck::None),
        Err(CustomKindError::Name { .. })
    ));
    assert!(matches!(
        CustomKind::new("text", "x", CustomCheck::None),
        Err(CustomKindError::Name { .. })
    ));
    assert!(matches!(
        CustomKind::new("bad", "(", CustomCheck::None),
        Err(CustomKindError::Pattern { .. })
    ));
    assert!(matches!(
        CustomKind::new("huge", r"\w{5000}{50}", CustomCheck::None),
        Err(CustomKindError::Pattern { .. })
    ));
    assert!(matches!(
        CustomKind::new("void", "x*", CustomCheck::None),
        Err(CustomKindError::Empty { .. })
    ));
}
