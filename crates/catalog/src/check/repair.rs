//! Repairs a schema: keeps each keyword only where it is well formed, so that every compiler accepts the result.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is malformed")]

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const TYPE_NAMES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
const SCHEMA_KEYWORDS: [&str; 9] = [
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
];
const SCHEMA_MAP_KEYWORDS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NUMBER_KEYWORDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
const COUNT_KEYWORDS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];
/// Annotations, which do not restrict values and are dropped without a note.
const ANNOTATION_KEYWORDS: [&str; 14] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "nullable",
    "optional",
];
/// The deepest level of a schema that is repaired.
const MAX_DEPTH: usize = 100;

/// The names that a schema requires at its top level.
pub(super) fn required_names(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
    names.into_iter().collect()
}

/// Rewrites `nullable`, which is widespread but not part of JSON Schema, in terms of JSON Schema.
pub(super) fn expand_nullable(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => Value::Array(items.iter().map(expand_nullable).collect()),
        Value::Object(object) => {
            let mut out: Map<String, Value> = object
                .iter()
                .map(|(key, value)| (key.clone(), expand_nullable(value)))
                .collect();
            if object.get("nullable") == Some(&Value::Bool(true)) {
                admit_null(&mut out);
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

fn admit_null(schema: &mut Map<String, Value>) {
    schema.shift_remove("nullable");
    match schema.get_mut("type") {
        Some(Value::String(kind)) => {
            let kind = kind.clone();
            schema.insert("type".to_owned(), json!([kind, "null"]));
        }
        Some(Value::Array(kinds)) if !kinds.iter().any(|kind| kind == "null") => kinds.push(json!("null")),
        _ => {}
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = schema.get_mut(key) {
            branches.push(json!({ "type": "null" }));
        }
    }
    if schema.contains_key("$ref") || schema.contains_key("allOf") || schema.contains_key("const") {
        let inner = Value::Object(std::mem::take(schema));
        schema.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
    }
}

/// The usable part of a schema, and the names of what was dropped.
pub(super) fn repair_schema(schema: &Value) -> (Value, Vec<String>) {
    let mut repair = SchemaRepair {
        document: schema,
        dropped: BTreeSet::new(),
    };
    let mut out = if schema.is_object() {
        repair.repair_schema(schema, 0)
    } else {
        repair.dropped.insert("a schema that is no object".to_owned());
        json!({})
    };
    // Arguments are always an object, whatever the schema says.
    if let Value::Object(out) = &mut out {
        out.entry("type").or_insert_with(|| json!("object"));
    }
    (out, repair.dropped.into_iter().take(12).collect())
}

struct SchemaRepair<'a> {
    document: &'a Value,
    dropped: BTreeSet<String>,
}

impl SchemaRepair<'_> {
    fn record_dropped(&mut self, what: &str) -> Option<Value> {
        self.dropped
            .insert(format!("`{}`", what.chars().take(40).collect::<String>()));
        None
    }

    fn repair_schema(&mut self, schema: &Value, depth: usize) -> Value {
        let object = match schema {
            Value::Bool(_) => return schema.clone(),
            Value::Object(object) if depth < MAX_DEPTH => object,
            _ => {
                self.dropped.insert("malformed parts".to_owned());
                return json!(true);
            }
        };
        let mut out = Map::new();
        for (key, value) in object {
            let (key, value) = match (key.as_str(), value) {
                // The form of tuples before 2020-12.
                ("items", Value::Array(_)) => ("prefixItems", self.repair_keyword("prefixItems", value, depth)),
                ("additionalItems", _) if object.get("items").is_some_and(Value::is_array) => {
                    ("items", self.repair_keyword("items", value, depth))
                }
                (key, value) => (key, self.repair_keyword(key, value, depth)),
            };
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
        }
        for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if object.get(flag) == Some(&Value::Bool(true))
                && let Some(value) = out.remove(bound)
            {
                out.insert(flag.to_owned(), value);
            }
        }
        if object.get("nullable") == Some(&Value::Bool(true)) {
            admit_null(&mut out);
        }
        Value::Object(out)
    }

    fn repair_keyword(&mut self, key: &str, value: &Value, depth: usize) -> Option<Value> {
        match (key, value) {
            (key, _) if ANNOTATION_KEYWORDS.contains(&key) => None,
            ("const", value) | ("uniqueItems", value @ Value::Bool(_)) => Some(value.clone()),
            ("enum", Value::Array(values)) if !values.is_empty() => Some(value.clone()),
            ("type", _) => self.repair_type(value),
            ("pattern", Value::String(_)) if super::compile_validator(&json!({ "pattern": value })).is_ok() => {
                Some(value.clone())
            }
            ("required", Value::Array(_)) => Some(json!(required_names(&json!({ "required": value })))),
            ("$ref", Value::String(reference)) if self.reference_resolves(reference) => Some(value.clone()),
            ("multipleOf", Value::Number(number)) if number.as_f64().is_some_and(|number| number > 0.0) => {
                Some(value.clone())
            }
            // Before draft 6 these were flags of a bound; the bound itself takes them into account.
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => None,
            (key, Value::Number(_)) if NUMBER_KEYWORDS.contains(&key) => Some(value.clone()),
            (key, Value::Number(number)) if COUNT_KEYWORDS.contains(&key) && number.is_u64() => Some(value.clone()),
            ("items", Value::Object(_) | Value::Bool(_)) => Some(self.repair_schema(value, depth + 1)),
            (key, Value::Object(_) | Value::Bool(_)) if SCHEMA_KEYWORDS.contains(&key) => {
                Some(self.repair_schema(value, depth + 1))
            }
            (key, Value::Object(folder)) if SCHEMA_MAP_KEYWORDS.contains(&key) => {
                let mut out = Map::new();
                for (name, schema) in folder {
                    if key == "patternProperties" && super::compile_validator(&json!({ "pattern": name })).is_err() {
                        self.record_dropped(name);
                        continue;
                    }
                    out.insert(name.clone(), self.repair_schema(schema, depth + 1));
                }
                Some(Value::Object(out))
            }
            (key, Value::Array(schemas)) if SCHEMA_LIST_KEYWORDS.contains(&key) && !schemas.is_empty() => Some(
                schemas
                    .iter()
                    .map(|schema| self.repair_schema(schema, depth + 1))
                    .collect(),
            ),
            (key, _) => self.record_dropped(key),
        }
    }

    fn repair_type(&mut self, value: &Value) -> Option<Value> {
        let names: Vec<&str> = match value {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let known: BTreeSet<&str> = names
            .iter()
            .filter_map(|name| match *name {
                "str" => Some("string"),
                "int" => Some("integer"),
                "float" | "double" => Some("number"),
                "bool" => Some("boolean"),
                "list" => Some("array"),
                "dict" => Some("object"),
                name => TYPE_NAMES.contains(&name).then_some(name),
            })
            .collect();
        // An unknown type may stand for any: checking only the known types beside it would be too strict.
        if known.is_empty() || known.len() < names.iter().collect::<BTreeSet<_>>().len() {
            return self.record_dropped("type");
        }
        Some(json!(known))
    }

    /// Whether a reference points to a part that the repair keeps.
    fn reference_resolves(&self, reference: &str) -> bool {
        let Some(pointer) = reference.strip_prefix('#') else {
            return false;
        };
        let kept = pointer.is_empty()
            || SCHEMA_MAP_KEYWORDS
                .iter()
                .any(|folder| pointer.starts_with(&format!("/{folder}/")));
        kept && self.document.pointer(pointer).is_some()
    }
}
