//! Schemas.

use serde_json::json;

use super::{Hints, Says};
use crate::kind::Kind;

#[test]
fn formats_marks_and_short_descriptions_say_something() {
    let says = |schema| Hints::from_schema(&schema).says;
    assert_eq!(says(json!({"format": "email"})), Says::Is(Kind::Email));
    assert_eq!(says(json!({"format": "password"})), Says::Is(Kind::Secret));
    assert_eq!(says(json!({"x-pii": "place"})), Says::Is(Kind::Place));
    assert_eq!(says(json!({"x-pii": false, "format": "email"})), Says::Harmless);
    assert_eq!(
        says(json!({"description": "Phone number to reach"})),
        Says::Is(Kind::Phone)
    );
    assert_eq!(says(json!({"description": "phone number ".repeat(10)})), Says::Nothing);
    assert_eq!(says(json!({"$ref": "#/nowhere"})), Says::Nothing);
    assert_eq!(says(json!(true)), Says::Nothing);
}
