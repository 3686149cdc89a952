use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn learnt(results: &[Value]) -> Value {
    results
        .iter()
        .fold(None, |known, result| Some(observe(known, result)))
        .unwrap()
}

#[test]
fn keys_that_were_missing_once_are_optional() {
    let schema = learnt(&[
        json!([{ "id": 1, "name": "a" }, { "id": 2.5, "tags": ["x"] }]),
        json!([{ "id": 3, "name": null }]),
    ]);
    let expected = json!({ "type": "array", "items": { "type": "object", "required": ["id"], "properties": {
        "id": { "type": "number" },
        "name": { "type": ["null", "string"] },
        "tags": { "type": "array", "items": { "type": "string" } },
    } } });
    assert_eq!(schema, expected);
}

#[test]
fn an_object_with_very_many_keys_is_a_map() {
    let many: Map<String, Value> = (0..500).map(|n| (format!("k{n}"), json!({ "n": n }))).collect();
    let expected = json!({ "type": "object", "additionalProperties": { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } });
    assert_eq!(learnt(&[Value::Object(many)]), expected);
}

#[test]
fn keys_that_are_somebodys_are_not_kept() {
    let map = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    let balances = |fields: Value| learnt(&[json!({ "balances": fields })])["properties"]["balances"].clone();
    for people in [
        json!({ "Ann Lee": 12 }),
        json!({ "Ann": 12, "Bob": 3 }),
        json!({ "ann@example.com": 1, "total": 2 }),
        json!({ "müller": 1 }),
        json!({ "cus_4711081500": 1 }),
        json!({ "1": 1 }),
    ] {
        assert_eq!(balances(people.clone()), map, "{people}");
    }
    for fields in [
        json!({ "open": 1, "closed": 2 }),
        json!({ "first-name": 1, "@type": 2, "sha256": 3, "InstanceId": 4 }),
    ] {
        let kept = balances(fields.clone());
        let kept: BTreeSet<&String> = kept["properties"].as_object().unwrap().keys().collect();
        assert_eq!(kept, fields.as_object().unwrap().keys().collect());
    }
    // Keys that vary between objects make a map, in lists and between results.
    assert_eq!(learnt(&[json!({ "ann": 1, "bob": 2 }), json!({ "cid": 3 })]), map);
    assert_eq!(learnt(&[json!([{ "ann": 1 }, { "bob": 2 }])])["items"], map);
    let next = |one: u8| json!({ char::from(one).to_string(): 1, char::from(one + 1).to_string(): 2 });
    let some: Vec<Value> = (b'a'..b'l').map(next).collect();
    assert_eq!(learnt(&some), map);
    // An empty object is not a different object.
    let details = learnt(&[json!({ "open": 1 }), json!({}), json!({ "open": 2 })]);
    assert_eq!(
        details,
        json!({ "type": "object", "properties": { "open": { "type": "integer" } } })
    );
}

#[test]
fn what_lies_too_deep_is_anything() {
    let deep = (0..40).fold(json!("x"), |inner, _| json!({ "in": inner }));
    let text = learnt(&[deep]).to_string();
    assert_eq!(text.matches("\"in\":").count(), 6, "{text}");
    assert!(text.contains("\"in\":{}"), "{text}");
}

#[test]
fn values_are_never_kept() {
    assert!(
        !learnt(&[json!({ "token": "s3cret", "list": ["s3cret"] })])
            .to_string()
            .contains("s3cret")
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::String),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|n| json!(n)),
        Just(Value::Null),
        Just(json!(0.5))
    ];
    leaf.prop_recursive(8, 128, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::hash_map("[a-e]", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn everything_seen_fits_what_was_learnt(results in prop::collection::vec(any_json(), 1..5)) {
        let schema = learnt(&results);
        let validator = jsonschema::validator_for(&schema).unwrap();
        for result in &results {
            prop_assert!(validator.is_valid(result), "{schema} refuses {result}");
        }
        prop_assert_eq!(&learnt(&results), &schema);
        prop_assert!(ObservedShape::from_schema(&schema, MAX_DEPTH + 1).key_count() <= MAX_TOTAL_KEYS);
    }

    #[test]
    fn any_previous_schema_is_borne(previous in any_json(), result in any_json()) {
        let schema = observe(Some(previous), &result);
        let validator = jsonschema::validator_for(&schema).unwrap();
        prop_assert!(validator.is_valid(&result), "{schema} refuses {result}");
    }
}
