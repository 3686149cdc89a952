use serde_json::json;

use super::*;

#[test]
fn a_schema_is_checked_before_it_is_kept() {
    let check = |what, schema: Value| check_schema(what, Some(&schema)).map_err(|error| ErrorReport::from(error).code);
    assert_eq!(check("inputs", json!({ "type": "object", "properties": {} })), Ok(()));
    assert_eq!(check("outputs", json!({ "type": "array" })), Ok(()));
    for (what, schema) in [
        ("inputs", json!({ "type": "array" })),
        ("inputs", json!([])),
        ("outputs", json!({ "type": "nonsense" })),
        ("inputs", json!({ "properties": { "a": { "pattern": "(" } } })),
        ("inputs", json!({ "$ref": "https://example.com/schema" })),
    ] {
        assert_eq!(check(what, schema.clone()), Err("skill.schema".to_owned()), "{schema}");
    }
}
