//! JSON: keys, neighbours, schemas.

use serde_json::{Value, json};

use crate::detector::{Detector, Names, Secrets, Settings};
use crate::hints::Hints;
use crate::kind::Kinds;

#[track_caller]
fn check(value: &Value, schema: &Value, expected: &[(&str, &str)]) {
    let detector = Detector::new(&Settings {
        kinds: Kinds::all(),
        names: Names::Keys,
        secrets: Secrets::Redact,
        own: Vec::new(),
    });
    let found = detector.find_json(value, &Hints::from_schema(schema));
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.pointer.as_str(), one.finding.kind.word()))
        .collect();
    assert_eq!(found, expected, "{value}");
}

#[test]
fn keys_and_what_they_stand_in_decide() {
    check(
        &json!({"customers": [{"name": "ann", "email": "a@b.co"}], "files": [{"name": "Report"}]}),
        &json!({}),
        &[("/customers/0/email", "email"), ("/customers/0/name", "name")],
    );
    check(&json!({"name": "Blue Chair", "sku": "A1", "price": 3}), &json!({}), &[]);
    check(
        &json!({"name": {"first": "Ann", "last": "Lee"}}),
        &json!({}),
        &[("/name/first", "name"), ("/name/last", "name")],
    );
    check(
        &json!({"phones": ["78 651 450", "nobody"]}),
        &json!({}),
        &[("/phones/0", "phone")],
    );
    check(
        &json!({"a~/b": {"ssn": 403_579_558}, "n": 403_579_558}),
        &json!({}),
        &[("/a~0~1b/ssn", "ssn")],
    );
    check(
        &json!({"x": {"ann@example.com": 1}}),
        &json!({}),
        &[("/x/ann@example.com", "email")],
    );
    check(
        &json!({"access_token": "a8f5f167f44f4964e6c998dee827110c", "tokens": 12}),
        &json!({}),
        &[("/access_token", "secret")],
    );
}

#[test]
fn a_schema_is_believed_before_the_key() {
    let schema = json!({"properties": {
        "who": {"type": "string", "description": "Full name of the guest"},
        "name": {"x-pii": false},
        "people": {"items": {"$ref": "#/$defs/person"}},
        "at": {"anyOf": [{"format": "ipv4"}, {"type": "null"}]},
    }, "$defs": {"person": {"properties": {"tag": {"x-pii": "name"}}}}});
    check(
        &json!({"who": "ann", "name": "Bob Lee", "people": [{"tag": "cy"}], "at": "10.1.2.3"}),
        &schema,
        &[("/at", "ip"), ("/people/0/tag", "name"), ("/who", "name")],
    );
}

#[test]
fn a_schema_that_names_itself_ends() {
    let schema = json!({"properties": {"next": {"$ref": "#"}}});
    check(
        &json!({"next": {"next": {"email": "a@b.co"}}}),
        &schema,
        &[("/next/next/email", "email")],
    );
}
