//! Writes a parameter's value into a path, a query or a header: `style`, `explode` and `content` of `OpenAPI`.

use serde_json::{Map, Value};

use super::Spot;

/// How a list or an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Each item separately: `a=1&a=2`, and an object's keys as names.
    Apart,
    /// In one text: `1,2`, and an object as `key,value`.
    Joined(char),
    /// An object as `name[key]=value` pairs.
    Deep,
    /// The value as JSON text.
    Json,
}

impl Style {
    /// Returns the style of a parameter at this location.
    pub(super) fn of(parameter: &Value, spot: Spot) -> Style {
        if parameter.get("content").is_some() {
            return Style::Json;
        }
        let named = parameter.get("style").and_then(Value::as_str);
        let explode = parameter.get("explode").and_then(Value::as_bool);
        match (spot, named) {
            (Spot::Query, Some("deepObject")) => Style::Deep,
            (Spot::Query, Some("spaceDelimited")) if explode != Some(true) => Style::Joined(' '),
            (Spot::Query, Some("pipeDelimited")) if explode != Some(true) => Style::Joined('|'),
            (Spot::Query | Spot::Cookie, _) if explode == Some(false) => Style::Joined(','),
            (Spot::Query | Spot::Cookie, _) => Style::Apart,
            (Spot::Path | Spot::Header, _) if explode == Some(true) => Style::Apart,
            (Spot::Path | Spot::Header, _) => Style::Joined(','),
            (Spot::Field | Spot::Body, _) => Style::Json,
        }
    }

    /// Returns the pairs for a query, a form or cookies.
    pub(super) fn pairs(self, called: &str, value: &Value) -> Vec<(String, String)> {
        let one = |text: String| vec![(called.to_owned(), text)];
        match (self, value) {
            (Style::Json, _) => one(value.to_string()),
            (Style::Apart, Value::Array(items)) => items.iter().map(|item| (called.to_owned(), plain(item))).collect(),
            (Style::Apart, Value::Object(keys)) => keys.iter().map(|(key, item)| (key.clone(), plain(item))).collect(),
            (Style::Deep, Value::Object(keys)) => deep(called, keys),
            (Style::Joined(by), Value::Array(_) | Value::Object(_)) => one(joined(value, by, str::to_owned)),
            _ => one(plain(value)),
        }
    }

    /// Returns the text for a path or a header, each part of it encoded.
    pub(super) fn text(self, value: &Value, encode: impl Fn(&str) -> String) -> String {
        match (self, value) {
            (Style::Json, _) => encode(&value.to_string()),
            (Style::Apart, Value::Object(keys)) => {
                let pairs = keys
                    .iter()
                    .map(|(key, item)| format!("{}={}", encode(key), encode(&plain(item))));
                pairs.collect::<Vec<_>>().join(",")
            }
            (_, Value::Array(_) | Value::Object(_)) => joined(value, ',', encode),
            _ => encode(&plain(value)),
        }
    }
}

fn deep(called: &str, keys: &Map<String, Value>) -> Vec<(String, String)> {
    let pair = |key: &str, item: &Value| (format!("{called}[{key}]"), plain(item));
    let pairs = keys.iter().flat_map(|(key, item)| match item {
        Value::Array(items) => items.iter().map(|item| pair(key, item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![pair(key, item)],
    });
    pairs.collect()
}

fn joined(value: &Value, by: char, encode: impl Fn(&str) -> String) -> String {
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| encode(&plain(item))).collect(),
        Value::Object(keys) => keys
            .iter()
            .flat_map(|(key, item)| [encode(key), encode(&plain(item))])
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![encode(&plain(value))],
    };
    parts.join(&by.to_string())
}

/// Formats a value as plain text for a URL or header.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
