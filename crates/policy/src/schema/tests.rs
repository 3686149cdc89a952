use serde_json::{Value, json};

use super::*;

/// A validator for the part of JSON Schema that this crate uses; an unknown keyword fails the test.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(keywords) = schema.as_object() else {
        return schema == &json!(true);
    };
    keywords.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$id" | "$defs" | "title" | "description" | "format" | "default" | "uniqueItems" => true,
        "$ref" => {
            let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
            valid(root, root.pointer(pointer).unwrap(), value)
        }
        "type" => match rule.as_array() {
            Some(types) => types.iter().any(|one| is_type(one, value)),
            None => is_type(rule, value),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => rule == value,
        "anyOf" => rule.as_array().unwrap().iter().any(|one| valid(root, one, value)),
        "oneOf" => {
            rule.as_array()
                .unwrap()
                .iter()
                .filter(|one| valid(root, one, value))
                .count()
                == 1
        }
        "properties" => value.as_object().is_none_or(|map| {
            map.iter()
                .all(|(name, item)| rule.get(name).is_none_or(|s| valid(root, s, item)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = schema.get("properties").and_then(Value::as_object);
            let extra = map
                .iter()
                .filter(|(name, _)| known.is_none_or(|k| !k.contains_key(*name)));
            extra.into_iter().all(|(_, item)| valid(root, rule, item))
        }),
        "required" => value.as_object().is_none_or(|map| {
            rule.as_array()
                .unwrap()
                .iter()
                .all(|name| map.contains_key(name.as_str().unwrap()))
        }),
        "minProperties" => value
            .as_object()
            .is_none_or(|map| map.len() as u64 >= rule.as_u64().unwrap()),
        "items" => value
            .as_array()
            .is_none_or(|list| list.iter().all(|item| valid(root, rule, item))),
        "pattern" => value
            .as_str()
            .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        other => panic!("unknown keyword {other}"),
    })
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("unknown type {other}"),
    }
}

fn document(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn the_schema_accepts_every_preset_and_the_contract() {
    let schema = schema();
    for name in crate::presets() {
        let value = document(crate::preset_text(name).unwrap());
        assert!(valid(&schema, &schema, &value), "{name}");
    }
    let contract = document(include_str!("../../testdata/contract.yaml"));
    assert!(valid(&schema, &schema, &contract));
    // The documents that the program writes are valid too.
    let written = serde_json::to_value(crate::Draft::builtin()).unwrap();
    assert!(valid(&schema, &schema, &written));
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let schema = schema();
    for text in [
        "proc: { mem_limt: 1GiB }",
        "version: 2",
        "proc: { wall_timeout: 30 }",
        "proc: { mem_limit: lots }",
        "net: { enabled: 'yes' }",
        "net: { presets: [pypi] }",
        "net: { allowlist: [{ ports: [443] }] }",
        "tools: { rules: [{ rate: 5/s }] }",
        "tools: { rules: [{ allow: a.b, deny: a.b }] }",
        "tools: { rules: [{ allow: a.b, where: { path: {} } }] }",
        "fs: { mounts: [{ path: /a }] }",
        "examples: [{ host: a.example.org }]",
        "data: { pii: { own: [{ name: Badge, pattern: x }] } }",
        "data: { pii: { own: [{ name: badge, pattern: x, check: crc }] } }",
    ] {
        assert!(crate::Draft::parse(text, "x").is_err(), "{text}");
        assert!(!valid(&schema, &schema, &document(text)), "{text}");
    }
}

#[test]
fn every_key_has_a_description() {
    let schema = schema();
    let sections = schema["properties"].as_object().unwrap();
    let names: Vec<&str> = sections.keys().map(String::as_str).collect();
    let mut expected = [
        "approvals",
        "audit",
        "data",
        "env",
        "examples",
        "fs",
        "net",
        "proc",
        "tools",
        "version",
    ];
    expected.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let definitions = schema["$defs"].as_object().unwrap().values();
    for object in definitions.chain([&schema]) {
        for (name, key) in object
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            assert!(key.get("description").is_some(), "{name} in {object}");
        }
    }
}
