//! Tests of schema hints.

use serde_json::json;

use super::SchemaHints;
use crate::kind::SensitiveKind;

#[test]
fn formats_marks_and_short_descriptions_say_something() {
    let says = |schema| SchemaHints::from_schema(&schema).says;
    assert_eq!(says(json!({"format": "email"})), Some(SensitiveKind::Email));
    assert_eq!(says(json!({"format": "password"})), Some(SensitiveKind::Secret));
    assert_eq!(says(json!({"x-pii": "place"})), Some(SensitiveKind::Place));
    assert_eq!(
        says(json!({"x-pii": false, "format": "email"})),
        Some(SensitiveKind::Email)
    );
    assert_eq!(
        says(json!({"description": "Phone number to reach"})),
        Some(SensitiveKind::Phone)
    );
    assert_eq!(says(json!({"description": "phone number ".repeat(10)})), None);
    assert_eq!(says(json!({"$ref": "#/nowhere"})), None);
    assert_eq!(says(json!(true)), None);
}
