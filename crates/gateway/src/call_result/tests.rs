use super::*;

fn result(value: Value) -> CallResult {
    serde_json::from_value::<CallToolResult>(value).unwrap().into()
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
fn check(given: Value, expected: Value) {
    assert_eq!(result(given.clone()).into_value(), expected, "{given}");
}

#[test]
fn a_program_gets_the_plainest_value_there_is() {
    check(json!({"content": [], "structuredContent": {"a": 1}}), json!({"a": 1}));
    check(json!({"content": [{"type": "text", "text": "hello"}]}), json!("hello"));
    check(
        json!({"content": [{"type": "text", "text": " {\"a\": [1]}"}]}),
        json!({"a": [1]}),
    );
    check(
        json!({"content": [{"type": "text", "text": "[broken"}]}),
        json!("[broken"),
    );
    check(json!({"content": [{"type": "text", "text": "12"}]}), json!("12"));
    check(json!({"content": []}), json!([]));
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AA=="});
    check(json!({"content": [image]}), json!([image]));
    check(
        json!({"content": [{"type": "text", "text": "a"}, image]}),
        json!([{"type": "text", "text": "a"}, image]),
    );
}

#[test]
fn a_failure_keeps_its_words() {
    let failed =
        result(json!({"isError": true, "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "way"}]}));
    assert!(failed.is_error);
    assert_eq!(failed.text(), "no\nway");
}
