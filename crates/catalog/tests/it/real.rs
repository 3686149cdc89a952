//! Real schemas, if the data is present: values generated from them, judged by both compilers and the check at run time.

use std::path::{Path, PathBuf};

use ringfence_catalog::SchemaChecker;
use serde_json::{Map, Value, json};

use crate::values::{Calls, judge};

/// The step between the schemas that are tested.
const EVERY: usize = 12;

#[test]
fn values_made_from_real_schemas_are_judged_alike() {
    let Some(schemas) = sample() else {
        println!("SKIPPED: no tool data here");
        return;
    };
    let mut calls = Calls {
        valid: Vec::new(),
        invalid: Vec::new(),
    };
    for (number, schema) in schemas.iter().enumerate() {
        let checker = SchemaChecker::new(schema).expect("a schema compiles");
        let Some(whole) = arguments(schema, |_| true) else {
            continue;
        };
        let Some(least) = arguments(schema, |required| required) else {
            continue;
        };
        for value in [&whole, &least] {
            if checker.check_arguments(value).is_ok() {
                calls.valid.push((number, value.clone()));
            }
        }
        for spoilt in spoilt(schema, &whole) {
            if checker.check_arguments(&spoilt).is_err() {
                calls.invalid.push((number, spoilt));
            }
        }
    }
    assert!(
        calls.valid.len() > schemas.len(),
        "too few valid values: {}",
        calls.valid.len()
    );
    assert!(
        calls.invalid.len() > schemas.len(),
        "too few invalid values: {}",
        calls.invalid.len()
    );
    let Some(compilers) = crate::compilers() else { return };
    judge(&compilers, &schemas, &calls);
}

/// Every twelfth schema of the data; `None` without the data.
fn sample() -> Option<Vec<Value>> {
    let place = std::env::var_os("RINGFENCE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let mut schemas = Vec::new();
    for file in ["toucan_tools.jsonl", "livemcpbench_tools.jsonl"] {
        let text = std::fs::read_to_string(place.join(file)).ok()?;
        let tools = text
            .lines()
            .step_by(EVERY)
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        schemas.extend(tools.filter_map(|mut tool| tool.get_mut("inputSchema").map(Value::take)));
    }
    Some(schemas)
}

/// Arguments with the wanted fields; `None` for a kind of schema that is not generated here.
fn arguments(schema: &Value, wanted: fn(bool) -> bool) -> Option<Value> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut fields = Map::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, field) in properties {
            if wanted(required.contains(&name.as_str())) {
                fields.insert(name.clone(), made(schema, field, 0)?);
            }
        }
    }
    Some(Value::Object(fields))
}

/// A value that matches a schema; `None` if none can be generated.
fn made(root: &Value, schema: &Value, depth: usize) -> Option<Value> {
    if depth > 12 {
        return None;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return made(root, root.pointer(reference.strip_prefix('#')?)?, depth + 1);
    }
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    if let Some(first) = schema
        .get("enum")
        .and_then(Value::as_array)
        .and_then(|values| values.first())
    {
        return Some(first.clone());
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(branch) = schema
            .get(key)
            .and_then(Value::as_array)
            .and_then(|branches| branches.first())
        {
            return made(root, branch, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
        Some(Value::String(kind)) => kind,
        _ => return Some(json!("anything")),
    };
    match kind {
        "string" => Some(json!("some text")),
        "integer" | "number" => Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(1))),
        "boolean" => Some(json!(true)),
        "null" => Some(Value::Null),
        "array" => match schema.get("items") {
            Some(items) if items.is_object() => Some(json!([made(root, items, depth + 1)?])),
            _ => Some(json!([])),
        },
        "object" => {
            let mut fields = Map::new();
            for (name, field) in schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                fields.insert(name.clone(), made(root, field, depth + 1)?);
            }
            Some(Value::Object(fields))
        }
        _ => None,
    }
}

/// The arguments with one error that a type can detect: a field of another type, or a missing required one.
fn spoilt(schema: &Value, arguments: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return all;
    };
    for (name, field) in properties.iter().take(3) {
        let wrong = match field.get("type").and_then(Value::as_str) {
            Some("string" | "array") => json!(5),
            Some("integer" | "number" | "boolean" | "object") => json!("five"),
            _ => continue,
        };
        let mut spoilt = arguments.clone();
        spoilt[name] = wrong;
        all.push(spoilt);
    }
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .take(2)
    {
        let mut spoilt = arguments.clone();
        if let Some(fields) = spoilt.as_object_mut() {
            fields.remove(name);
        }
        all.push(spoilt);
    }
    all
}
