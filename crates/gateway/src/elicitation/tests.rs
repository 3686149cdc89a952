use serde_json::json;

use super::{Value, fill_defaults};

#[track_caller]
fn check(given: &Value, expected: &Value) {
    let form = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer"}, "on": {"type": "boolean", "default": true},
    }});
    let given = given.as_object().cloned().unwrap();
    assert_eq!(&Value::Object(fill_defaults(given, &form)), expected);
}

#[test]
fn values_left_out_take_the_forms_defaults() {
    check(&json!({}), &json!({"name": "Ada", "on": true}));
    check(
        &json!({"on": false, "age": 3}),
        &json!({"name": "Ada", "on": false, "age": 3}),
    );
    check(&json!({"name": null}), &json!({"name": null, "on": true}));
}
