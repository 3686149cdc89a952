use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn problems(schema: &Value, arguments: &Value) -> Vec<String> {
    let checker = SchemaChecker::new(schema).unwrap();
    let Err(bad) = checker.check_arguments(arguments) else {
        return Vec::new();
    };
    bad.problems.iter().map(SchemaMismatch::to_string).collect()
}

#[test]
fn a_problem_names_its_place_and_never_the_value() {
    let schema = json!({ "type": "object", "properties": { "card": { "type": "integer" } }, "required": ["card"] });
    let found = problems(&schema, &json!({ "card": "4111 secret" }));
    assert_eq!(found, ["`/card`: the value is not of type \"integer\""]);
}

#[test]
fn the_answer_lists_every_parameter_with_type_and_mark() {
    let schema = json!({ "type": "object", "properties": { "b-c": { "enum": ["x", "y"] }, "a": { "type": "array", "items": { "type": "string" } } }, "required": ["b-c"] });
    let bad = SchemaChecker::new(&schema)
        .unwrap()
        .check_arguments(&json!({}))
        .unwrap_err();
    assert_eq!(bad.parameters, "\"b-c\": \"x\" | \"y\" (required), a: string[]");
    assert!(bad.to_string().contains("parameters: \"b-c\""), "{bad}");
}

#[test]
fn at_most_five_problems_are_told() {
    let fields: serde_json::Map<String, Value> = (0..40)
        .map(|n| (format!("f{n}"), json!({ "type": "string" })))
        .collect();
    let values: serde_json::Map<String, Value> = (0..40).map(|n| (format!("f{n}"), json!(n))).collect();
    let checker = SchemaChecker::new(&json!({ "type": "object", "properties": fields })).unwrap();
    let bad = checker.check_arguments(&Value::Object(values)).unwrap_err();
    assert_eq!((bad.problems.len(), bad.more), (5, true));
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    for value in [json!([]), json!(null), json!("x")] {
        assert!(!problems(&json!({}), &value).is_empty(), "{value}");
        assert!(!problems(&json!(true), &value).is_empty(), "{value}");
    }
}

#[test]
fn a_reference_to_another_document_is_not_fetched_and_that_is_said() {
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/x.json" }, "f": { "$ref": "file:///etc/passwd" }, "b": { "type": "integer" } } });
    let checker = SchemaChecker::new(&schema).unwrap();
    assert_eq!(
        checker.note(),
        Some("not checked, because the schema is not usable as it is: `$ref`")
    );
    assert_eq!(checker.check_arguments(&json!({ "a": 1, "b": 2 })), Ok(()));
    assert!(checker.check_arguments(&json!({ "b": "x" })).is_err());
}

#[test]
fn unusable_parts_are_dropped_one_by_one() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "any" }, "p": { "type": "string", "pattern": "(?=x)" }, "n": { "type": "integer", "minimum": 1, "exclusiveMinimum": true }, "broken": 5 }, "required": ["n"] });
    let checker = SchemaChecker::new(&schema).unwrap();
    let note = checker.note().unwrap();
    assert!(
        note.contains("`pattern`") && note.contains("`type`") && note.contains("malformed"),
        "{note}"
    );
    assert_eq!(checker.check_arguments(&json!({ "n": 2, "p": "y", "a": [] })), Ok(()));
    assert!(checker.check_arguments(&json!({ "n": 1 })).is_err());
    assert!(checker.check_arguments(&json!({ "p": 1, "n": 2 })).is_err());
}

#[test]
fn a_hostile_pattern_does_not_hang() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } });
    let checker = SchemaChecker::new(&schema).unwrap();
    let start = Instant::now();
    assert!(
        checker
            .check_arguments(&json!({ "a": format!("{}!", "a".repeat(50_000)) }))
            .is_err()
    );
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_schema_that_multiplies_or_means_itself_is_not_evaluated() {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = format!("#/$defs/d{}", n + 1);
        defs.insert(
            format!("d{n}"),
            json!({ "anyOf": [{ "$ref": next }, { "$ref": next }] }),
        );
    }
    defs.insert("d60".to_owned(), json!({ "type": "integer" }));
    let doubling =
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "required": ["a"], "$defs": defs });
    let itself = json!({ "required": ["a"], "allOf": [{ "$ref": "#" }] });
    let start = Instant::now();
    for schema in [doubling, itself] {
        let checker = SchemaChecker::new(&schema).unwrap();
        assert!(
            checker.note().is_some_and(|note| note.starts_with("only required")),
            "{schema}"
        );
        assert_eq!(checker.check_arguments(&json!({ "a": "x" })), Ok(()));
        assert!(checker.check_arguments(&json!({})).is_err());
    }
    assert!(start.elapsed() < Duration::from_secs(2));
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "required",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "oneOf",
        "$ref",
        "#",
        "#/properties/a",
        "a",
        "object",
        "array",
        "string",
        "pattern",
        "(",
        "additionalProperties",
        "nullable",
        "$defs",
        "minimum",
        "prefixItems",
        "format",
    ]);
    let word = prop_oneof![4 => words.prop_map(str::to_owned), 1 => any::<String>()];
    let leaf = prop_oneof![
        word.clone().prop_map(Value::String),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| json!(n)),
        Just(Value::Null),
        any::<f64>().prop_map(|n| json!(n))
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::hash_map(word.clone(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_gives_a_checker_that_answers(schema in any_json(), arguments in any_json()) {
        let checker = SchemaChecker::new(&schema).unwrap();
        let _answer = checker.check_arguments(&arguments);
    }
}
