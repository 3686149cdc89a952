//! Writes a parameter's value into a path, a query or a header: `style`, `explode` and `content` of `OpenAPI`.

use serde_json::{Map, Value};

use super::ArgumentLocation;

/// How a list or an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterStyle {
    /// Each item separately: `a=1&a=2`, and an object's keys as names.
    Apart,
    /// In one text: `1,2`, and an object as `key,value`.
    Joined(char),
    /// An object as `name[key]=value` pairs.
    Deep,
    /// The value as JSON text.
    Json,
}

impl ParameterStyle {
    /// Returns the style of a parameter at this location.
    pub(super) fn of_parameter(parameter: &Value, spot: ArgumentLocation) -> ParameterStyle {
        if parameter.get("content").is_some() {
            return ParameterStyle::Json;
        }
        let named = parameter.get("style").and_then(Value::as_str);
        let explode = parameter.get("explode").and_then(Value::as_bool);
        match (spot, named) {
            (ArgumentLocation::Query, Some("deepObject")) => ParameterStyle::Deep,
            (ArgumentLocation::Query, Some("spaceDelimited")) if explode != Some(true) => ParameterStyle::Joined(' '),
            (ArgumentLocation::Query, Some("pipeDelimited")) if explode != Some(true) => ParameterStyle::Joined('|'),
            (ArgumentLocation::Query | ArgumentLocation::Cookie, _) if explode == Some(false) => {
                ParameterStyle::Joined(',')
            }
            (ArgumentLocation::Query | ArgumentLocation::Cookie, _) => ParameterStyle::Apart,
            (ArgumentLocation::Path | ArgumentLocation::Header, _) if explode == Some(true) => ParameterStyle::Apart,
            (ArgumentLocation::Path | ArgumentLocation::Header, _) => ParameterStyle::Joined(','),
            (ArgumentLocation::Field | ArgumentLocation::Body, _) => ParameterStyle::Json,
        }
    }

    /// Returns the pairs for a query, a form or cookies.
    pub(super) fn pairs(self, called: &str, value: &Value) -> Vec<(String, String)> {
        let one = |text: String| vec![(called.to_owned(), text)];
        match (self, value) {
            (ParameterStyle::Json, _) => one(value.to_string()),
            (ParameterStyle::Apart, Value::Array(items)) => items
                .iter()
                .map(|item| (called.to_owned(), to_plain_text(item)))
                .collect(),
            (ParameterStyle::Apart, Value::Object(keys)) => keys
                .iter()
                .map(|(key, item)| (key.clone(), to_plain_text(item)))
                .collect(),
            (ParameterStyle::Deep, Value::Object(keys)) => deep_object_pairs(called, keys),
            (ParameterStyle::Joined(by), Value::Array(_) | Value::Object(_)) => {
                one(join_items(value, by, str::to_owned))
            }
            _ => one(to_plain_text(value)),
        }
    }

    /// Returns the text for a path or a header, each part of it encoded.
    pub(super) fn text(self, value: &Value, encode: impl Fn(&str) -> String) -> String {
        match (self, value) {
            (ParameterStyle::Json, _) => encode(&value.to_string()),
            (ParameterStyle::Apart, Value::Object(keys)) => {
                let pairs = keys
                    .iter()
                    .map(|(key, item)| format!("{}={}", encode(key), encode(&to_plain_text(item))));
                pairs.collect::<Vec<_>>().join(",")
            }
            (_, Value::Array(_) | Value::Object(_)) => join_items(value, ',', encode),
            _ => encode(&to_plain_text(value)),
        }
    }
}

fn deep_object_pairs(called: &str, keys: &Map<String, Value>) -> Vec<(String, String)> {
    let pair = |key: &str, item: &Value| (format!("{called}[{key}]"), to_plain_text(item));
    let pairs = keys.iter().flat_map(|(key, item)| match item {
        Value::Array(items) => items.iter().map(|item| pair(key, item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![pair(key, item)],
    });
    pairs.collect()
}

fn join_items(value: &Value, by: char, encode: impl Fn(&str) -> String) -> String {
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| encode(&to_plain_text(item))).collect(),
        Value::Object(keys) => keys
            .iter()
            .flat_map(|(key, item)| [encode(key), encode(&to_plain_text(item))])
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![encode(&to_plain_text(value))],
    };
    parts.join(&by.to_string())
}

/// Formats a value as plain text for a URL or header.
pub(super) fn to_plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
