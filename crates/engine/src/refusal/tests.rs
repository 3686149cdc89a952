use super::*;

#[test]
fn a_refusal_says_a_bounded_amount_whatever_a_request_names() {
    let long = RunRefusal {
        code: "policy.parse",
        message: "é".repeat(60_000),
        rule: "k, ".repeat(60_000),
        hint: Some("h".repeat(60_000)),
    };
    let told = ErrorReport::from(long.clone());
    for text in [Some(&told.message), told.rule.as_ref(), told.hint.as_ref()] {
        let text = text.unwrap();
        assert!(text.len() <= MAX_TEXT_BYTES && text.ends_with('…'), "{}", text.len());
    }
    assert!(format!("{:?}", long.to_event()).len() < 3 * MAX_TEXT_BYTES);
    let short = RunRefusal {
        message: "no".to_owned(),
        ..long
    };
    assert_eq!(ErrorReport::from(short).message, "no");
}
