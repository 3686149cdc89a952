use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::*;

#[track_caller]
fn root(schema: &Value) -> SchemaShape {
    SchemaTypes::from_schema(schema).root
}

#[test]
fn types_are_inferred_from_keywords() {
    assert_eq!(root(&json!({ "minLength": 1 })), SchemaShape::String);
    assert_eq!(root(&json!({ "maximum": 1 })), SchemaShape::Number);
    assert_eq!(
        root(&json!({ "items": { "type": "null" } })),
        SchemaShape::List(Box::new(SchemaShape::Null))
    );
    assert_eq!(root(&json!({ "format": "int64" })), SchemaShape::Integer);
    assert_eq!(root(&json!({ "description": "nothing" })), SchemaShape::Unknown);
}

#[test]
fn a_name_that_means_itself_is_unknown() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
    ] {
        assert_eq!(root(&schema), SchemaShape::Unknown, "{schema}");
    }
    let partly =
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "string" }] } } });
    assert_eq!(root(&partly), SchemaShape::String);
}

#[test]
fn contradictions_are_never() {
    assert_eq!(root(&json!({ "type": "string", "const": 5 })), SchemaShape::Never);
    assert_eq!(
        root(&json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] })),
        SchemaShape::Never
    );
}

#[test]
fn what_is_left_out_is_said() {
    let elided = |schema: Value| SchemaTypes::from_schema(&schema).elided.into_iter().collect::<Vec<_>>();
    assert_eq!(
        elided(json!({ "$ref": "https://example.com/x" })),
        ["references to other documents, which are never fetched"]
    );
    assert_eq!(
        elided(json!({ "$ref": "#/$defs/none" })),
        ["references that lead nowhere"]
    );
    assert_eq!(
        elided(json!({ "type": "object", "properties": 5 })),
        ["malformed parts"]
    );
    let values: Vec<usize> = (0..5000).collect();
    assert_eq!(elided(json!({ "enum": values })), ["values of a very long `enum`"]);
}

#[test]
fn a_megabyte_is_done_in_well_under_a_second() {
    let field = |n: usize| {
        (
            format!("field_{n}"),
            json!({ "type": "object", "properties": { "a": { "type": "string", "description": "x".repeat(60) } } }),
        )
    };
    let wide: Map<String, Value> = (0..10_000).map(field).collect();
    let chain: Map<String, Value> = (0..20_000)
        .map(|n| (format!("d{n}"), json!({ "$ref": format!("#/$defs/d{}", n + 1) })))
        .collect();
    let union: Vec<Value> = (0..20_000)
        .map(|n| json!({ "const": format!("value number {n} of very many") }))
        .collect();
    let start = Instant::now();
    for schema in [
        json!({ "type": "object", "properties": wide }),
        json!({ "$ref": "#/$defs/d0", "$defs": chain }),
        json!({ "anyOf": union }),
    ] {
        assert!(!SchemaTypes::from_schema(&schema).elided.is_empty());
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
