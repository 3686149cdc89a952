//! Renders tools as JSON. Keywords that restrict values are unchanged; other text is truncated, cleaned and marked as a quotation
//! from the server.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{OfferedTool, text, tool_tags};
use crate::schema::SchemaTypes;
use crate::tool::Tool;
use ringfence_policy::is_invisible;

/// Keywords of JSON Schema whose keys are free and whose values are schemas.
const SCHEMA_MAP_KEYWORDS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Keywords that restrict values, and so are copied unchanged.
const VERBATIM_KEYWORDS: [&str; 7] = [
    "type",
    "const",
    "enum",
    "required",
    "dependentRequired",
    "$ref",
    "$dynamicRef",
];
/// Keywords that restrict values, but are left out if their value is long.
const SHORT_VALUE_KEYWORDS: [&str; 11] = [
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

pub(super) fn render_stub(offer: &OfferedTool<'_>) -> String {
    escape_invisible(&entry(offer).to_string())
}

pub(super) fn render_stubs(offers: &[OfferedTool<'_>]) -> String {
    let entries: Vec<Value> = offers.iter().map(entry).collect();
    escape_invisible(&Value::Array(entries).to_string())
}

/// Escapes every invisible character, which JSON contains only in strings.
fn escape_invisible(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if !c.is_control() && !is_invisible(c) {
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
fn show_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let members = members
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), show_keyword(key, value)?)));
            Value::Object(members.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(show_schema).collect()),
        Value::String(words) => Value::String(text::quoted_remark(words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => schema.clone(),
    }
}

/// The shown form of one keyword; `None` leaves it out.
fn show_keyword(key: &str, value: &Value) -> Option<Value> {
    if VERBATIM_KEYWORDS.contains(&key) {
        return Some(value.clone());
    }
    if SHORT_VALUE_KEYWORDS.contains(&key) {
        let is_long = value.to_string().chars().nth(text::MAX_FIELD_CHARS).is_some();
        return (!is_long).then(|| value.clone());
    }
    match value.as_object().filter(|_| SCHEMA_MAP_KEYWORDS.contains(&key)) {
        Some(named) => {
            let named = named.iter().map(|(name, schema)| (name.clone(), show_schema(schema)));
            Some(Value::Object(named.collect()))
        }
        None => Some(show_schema(value)),
    }
}

fn entry(offer: &OfferedTool<'_>) -> Value {
    let tool = offer.tool;
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(tool.name.as_str()));
    entry.insert(
        "call".to_owned(),
        json!(format!("{}.{}", tool.program_path(), tool.ident)),
    );
    let words = text::quoted_lines(&tool.definition.description);
    if !words.is_empty() {
        entry.insert("server_says".to_owned(), json!(words.join("\n")));
    }
    entry.insert("input".to_owned(), show_schema(&tool.definition.input));
    match (&tool.definition.output, offer.observed) {
        (Some(output), _) => entry.insert("output".to_owned(), show_schema(output)),
        (None, Some(observed)) => entry.insert("observed_output".to_owned(), show_schema(observed)),
        (None, None) => None,
    };
    let tags = tool_tags(offer);
    if !tags.is_empty() {
        entry.insert("tags".to_owned(), json!(tags));
    }
    Value::Object(entry)
}

pub(super) fn signature(tool: &Tool) -> String {
    let types = SchemaTypes::from_schema(&tool.definition.input);
    let mut parameters = Map::new();
    for field in types.argument_objects().iter().flat_map(|object| &object.fields) {
        let mark = if field.required { "" } else { "?" };
        let shape = super::typescript::brief_type(&types, &field.shape);
        parameters.insert(format!("{}{mark}", field.name), Value::String(shape));
    }
    escape_invisible(&json!({ "name": tool.name.as_str(), "parameters": parameters }).to_string())
}
