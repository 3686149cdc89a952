//! Writes request bodies: as JSON, as a form, as multipart, or as a text of another type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use http::HeaderValue;
use serde_json::{Map, Value};

use super::style::{Style, plain};

/// The encoding of a body.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    Json,
    /// `application/x-www-form-urlencoded`, with the fields that have a style of their own.
    Form(BTreeMap<String, Style>),
    /// `multipart/form-data`, with the fields that are files.
    Parts(BTreeSet<String>),
    /// The caller's text as it is, with this content type.
    Text(HeaderValue),
}

/// The body that the caller gave.
#[derive(Debug)]
pub(super) enum Given {
    Fields(Map<String, Value>),
    Whole(Value),
}

impl Kind {
    /// Returns the content type and the bytes of a body.
    pub(super) fn write(&self, given: Given) -> Result<(HeaderValue, Vec<u8>), String> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
        match (self, given) {
            (Kind::Json, Given::Whole(value)) => Ok((JSON, value.to_string().into_bytes())),
            (Kind::Json, Given::Fields(fields)) => Ok((JSON, Value::Object(fields).to_string().into_bytes())),
            (Kind::Form(styles), given) => Ok((FORM, form(styles, &given.into_fields()?).into_bytes())),
            (Kind::Parts(files), given) => parts(files, &given.into_fields()?),
            (Kind::Text(kind), Given::Whole(value)) => Ok((kind.clone(), plain(&value).into_bytes())),
            (Kind::Text(_), Given::Fields(_)) => Err("this body has no fields".to_owned()),
        }
    }
}

impl Given {
    fn into_fields(self) -> Result<Map<String, Value>, String> {
        match self {
            Given::Fields(fields) | Given::Whole(Value::Object(fields)) => Ok(fields),
            Given::Whole(_) => Err("`body` must be an object: it is sent as a form".to_owned()),
        }
    }
}

/// Without a style of its own, a list becomes one field per item, and an object becomes JSON.
fn form(styles: &BTreeMap<String, Style>, fields: &Map<String, Value>) -> String {
    let mut written = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        let style = match value {
            Value::Object(_) => Style::Json,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Style::Apart,
        };
        written.extend_pairs(styles.get(name).copied().unwrap_or(style).pairs(name, value));
    }
    written.finish()
}

/// Writes `multipart/form-data` with an unpredictable boundary.
fn parts(files: &BTreeSet<String>, fields: &Map<String, Value>) -> Result<(HeaderValue, Vec<u8>), String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let boundary = format!("{:032x}", u128::from_ne_bytes(random));
    let mut body = String::new();
    // Writing to a text cannot fail.
    for (name, value) in fields {
        let items = value
            .as_array()
            .map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        let written = quoted(name);
        for item in items {
            let _ = write!(
                body,
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{written}\""
            );
            if files.contains(name) {
                let _ = write!(
                    body,
                    "; filename=\"{written}\"\r\nContent-Type: application/octet-stream"
                );
            } else if item.is_object() {
                body.push_str("\r\nContent-Type: application/json");
            }
            let _ = write!(body, "\r\n\r\n{}\r\n", plain(item));
        }
    }
    let _ = write!(body, "--{boundary}--\r\n");
    let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    Ok((kind.map_err(|error| error.to_string())?, body.into_bytes()))
}

/// Quotes a field's name as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests;
