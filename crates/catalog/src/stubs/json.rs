//! Renders tools as JSON. Keywords that restrict values are unchanged; other text is truncated, cleaned and marked as a quotation
//! from the server.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Offer, tags, text};
use crate::schema::Types;
use crate::tool::Tool;
use ringfence_policy::is_unseen;

/// Keywords of JSON Schema whose keys are free and whose values are schemas.
const NAMED: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Keywords that restrict values, and so are copied unchanged.
const EXACT: [&str; 7] = [
    "type",
    "const",
    "enum",
    "required",
    "dependentRequired",
    "$ref",
    "$dynamicRef",
];
/// Keywords that restrict values, but are left out if their value is long.
const SHORT: [&str; 11] = [
    "$id",
    "$schema",
    "$anchor",
    "$dynamicAnchor",
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
    "default",
    "example",
    "examples",
];

pub(super) fn stub(offer: &Offer<'_>) -> String {
    visible(&entry(offer).to_string())
}

pub(super) fn stubs(offers: &[Offer<'_>]) -> String {
    let entries: Vec<Value> = offers.iter().map(entry).collect();
    visible(&Value::Array(entries).to_string())
}

/// Escapes every invisible character, which JSON contains only in strings.
fn visible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if !c.is_control() && !is_unseen(c) {
            out.push(c);
            continue;
        }
        let mut units = [0u16; 2];
        for unit in c.encode_utf16(&mut units) {
            let _infallible = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// A schema as it is shown: restrictions unchanged, any other text as a quotation.
fn shown(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let members = members
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), member(key, value)?)));
            Value::Object(members.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(shown).collect()),
        Value::String(words) => Value::String(text::remark(words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => schema.clone(),
    }
}

/// The shown form of one keyword; `None` leaves it out.
fn member(key: &str, value: &Value) -> Option<Value> {
    if EXACT.contains(&key) {
        return Some(value.clone());
    }
    if SHORT.contains(&key) {
        let is_long = value.to_string().chars().nth(text::FIELD).is_some();
        return (!is_long).then(|| value.clone());
    }
    match value.as_object().filter(|_| NAMED.contains(&key)) {
        Some(named) => {
            let named = named.iter().map(|(name, schema)| (name.clone(), shown(schema)));
            Some(Value::Object(named.collect()))
        }
        None => Some(shown(value)),
    }
}

fn entry(offer: &Offer<'_>) -> Value {
    let tool = offer.tool;
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(tool.name.as_str()));
    entry.insert("call".to_owned(), json!(format!("{}.{}", tool.path(), tool.ident)));
    let words = text::quoted(&tool.definition.description);
    if !words.is_empty() {
        entry.insert("server_says".to_owned(), json!(words.join("\n")));
    }
    entry.insert("input".to_owned(), shown(&tool.definition.input));
    match (&tool.definition.output, offer.observed) {
        (Some(output), _) => entry.insert("output".to_owned(), shown(output)),
        (None, Some(observed)) => entry.insert("observed_output".to_owned(), shown(observed)),
        (None, None) => None,
    };
    let tags = tags(offer);
    if !tags.is_empty() {
        entry.insert("tags".to_owned(), json!(tags));
    }
    Value::Object(entry)
}

pub(super) fn signature(tool: &Tool) -> String {
    let types = Types::of(&tool.definition.input);
    let mut parameters = Map::new();
    for field in types.arguments().iter().flat_map(|object| &object.fields) {
        let mark = if field.required { "" } else { "?" };
        let shape = super::typescript::brief(&types, &field.shape);
        parameters.insert(format!("{}{mark}", field.name), Value::String(shape));
    }
    visible(&json!({ "name": tool.name.as_str(), "parameters": parameters }).to_string())
}
