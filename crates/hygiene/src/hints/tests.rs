//! Tests of schema hints.

use serde_json::json;

use super::Hints;
use crate::kind::Kind;

#[test]
fn formats_marks_and_short_descriptions_say_something() {
    let says = |schema| Hints::from_schema(&schema).says;
    assert_eq!(says(json!({"format": "email"})), Some(Kind::Email));
    assert_eq!(says(json!({"format": "password"})), Some(Kind::Secret));
    assert_eq!(says(json!({"x-pii": "place"})), Some(Kind::Place));
    assert_eq!(says(json!({"x-pii": false, "format": "email"})), Some(Kind::Email));
    assert_eq!(says(json!({"description": "Phone number to reach"})), Some(Kind::Phone));
    assert_eq!(says(json!({"description": "phone number ".repeat(10)})), None);
    assert_eq!(says(json!({"$ref": "#/nowhere"})), None);
    assert_eq!(says(json!(true)), None);
}
