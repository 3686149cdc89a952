//! The document as a validator of responses, and as a source of values.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// A validator for one schema of the document. It allows no fields that the document does not name, wherever it names any.
pub(super) fn validator(document: &Value, schema: &Value) -> Validator {
    let mut root = json!({ "allOf": [schema], "components": document["components"] });
    close(&mut root);
    jsonschema::options()
        .should_validate_formats(true)
        .build(&root)
        .unwrap_or_else(|error| panic!("{error}: {schema}"))
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.get("properties").is_some_and(Value::is_object) && keys.contains_key("type") {
                keys.entry("additionalProperties").or_insert(json!(false));
            }
            keys.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The target of a reference.
pub(super) fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

/// Values that a schema allows.
pub(super) fn allowed(document: &Value, schema: &Value) -> Vec<Value> {
    let schema = resolve(document, schema);
    if let Some(Value::Array(all)) = schema.get("enum") {
        return all.clone();
    }
    match kind(schema) {
        "integer" | "number" => {
            let bounds = ["minimum", "default"]
                .iter()
                .filter_map(|bound| schema.get(*bound).cloned());
            bounds.chain([json!(1)]).collect()
        }
        "boolean" => vec![json!(true), json!(false)],
        "array" => {
            let items = schema
                .get("items")
                .map(|items| allowed(document, items))
                .unwrap_or_default();
            vec![json!([]), json!(items)]
        }
        "object" => vec![Value::Object(required(document, schema))],
        _ => vec![json!("a text")],
    }
}

/// An object with the required fields of a schema.
pub(super) fn required(document: &Value, schema: &Value) -> Map<String, Value> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = names.map(|name| name.as_str().unwrap());
    names
        .map(|name| {
            (
                name.to_owned(),
                allowed(document, &schema["properties"][name]).remove(0),
            )
        })
        .collect()
}

/// Values of every type that a schema forbids.
pub(super) fn forbidden(schema: &Value) -> Vec<Value> {
    let all = [
        ("string", json!("x")),
        ("number", json!(7.5)),
        ("boolean", json!(true)),
        ("array", json!([{ "x": [[]] }])),
        ("object", json!({ "x": { "y": 1 } })),
    ];
    let own = kind(schema);
    let is_other = |kind: &str| kind != own && (kind, own) != ("number", "integer");
    let others = all
        .into_iter()
        .filter(|(kind, _)| is_other(kind))
        .map(|(_, value)| value);
    let mut others: Vec<Value> = others.collect();
    if own == "integer" || own == "number" {
        others.push(json!(-1));
    }
    if schema.get("enum").is_some() && own == "string" {
        others.push(json!("none of them"));
    }
    others
}

fn kind(schema: &Value) -> &str {
    let enumerated = schema.get("enum").is_some_and(Value::is_array);
    schema["type"]
        .as_str()
        .unwrap_or(if enumerated { "string" } else { "" })
}
