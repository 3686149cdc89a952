//! Tests of custom kinds.

use std::sync::Arc;

use super::{Check, Own, OwnError};

#[track_caller]
fn check(own: &Own, text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    own.find(text, &mut found);
    let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_expression_and_a_check() {
    let plain = Own::new("badge", r"\bB-\d{4}\b", Check::None).unwrap();
    check(&plain, "B-1234 and B-12", &["B-1234"]);
    let part = Own::new("badge", r"badge (?<value>\d+)", Check::Luhn).unwrap();
    check(&part, "badge 79927398713, badge 79927398714", &["79927398713"]);
    let even = Own::new(
        "even",
        r"\d+",
        Check::By(Arc::new(|value| value.ends_with(['0', '2', '4', '6', '8']))),
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
        Own::new("email", "x", Check::None),
        Err(OwnError::Name { .. })
    ));
    assert!(matches!(
        Own::new("Two Words", "x", Check::None),
        Err(OwnError::Name { .. })
    ));
    assert!(matches!(Own::new("text", "x", Check::None), Err(OwnError::Name { .. })));
    assert!(matches!(
        Own::new("bad", "(", Check::None),
        Err(OwnError::Pattern { .. })
    ));
    assert!(matches!(
        Own::new("huge", r"\w{5000}{50}", Check::None),
        Err(OwnError::Pattern { .. })
    ));
    assert!(matches!(
        Own::new("void", "x*", Check::None),
        Err(OwnError::Empty { .. })
    ));
}
