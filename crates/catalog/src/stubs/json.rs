//! Tools as JSON: what their schemas demand as it is; the words in them capped, cleaned and marked as the server's.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Offer, tags, text};
use crate::schema::Types;
use crate::tool::Tool;
use ringfence_policy::is_unseen;

/// Keywords of JSON Schema under which names are free and values are schemas.
const NAMED: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Keywords whose values are no words: what a value must be.
const EXACT: [&str; 7] = [
    "type",
    "const",
    "enum",
    "required",
    "dependentRequired",
    "$ref",
    "$dynamicRef",
];
/// Keywords whose values are no words either, but of which a long one only takes room.
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

/// JSON that says the same with nothing invisible in it: whatever is, stands in a text, where it can be escaped.
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

/// A schema as it may be shown. What a value must be stays; every other text is the server's words.
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

/// What is shown under one keyword.
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
