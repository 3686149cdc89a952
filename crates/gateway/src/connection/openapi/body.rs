//! Writes request bodies: as JSON, as a form, as multipart, or as a text of another type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use http::HeaderValue;
use serde_json::{Map, Value};

use super::style::{ParameterStyle, to_plain_text};

/// The encoding of a body.
#[derive(Debug, PartialEq)]
pub(super) enum BodyEncoding {
    Json,
    /// `application/x-www-form-urlencoded`, with the fields that have a style of their own.
    Form(BTreeMap<String, ParameterStyle>),
    /// `multipart/form-data`, with the fields that are files.
    Parts(BTreeSet<String>),
    /// The caller's text as it is, with this content type.
    Text(HeaderValue),
}

/// The body that the caller gave.
#[derive(Debug)]
pub(super) enum BodyInput {
    Fields(Map<String, Value>),
    Whole(Value),
}

impl BodyEncoding {
    /// Returns the content type and the bytes of a body.
    pub(super) fn encode(&self, given: BodyInput) -> Result<(HeaderValue, Vec<u8>), String> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
        match (self, given) {
            (BodyEncoding::Json, BodyInput::Whole(value)) => Ok((JSON, value.to_string().into_bytes())),
            (BodyEncoding::Json, BodyInput::Fields(fields)) => {
                Ok((JSON, Value::Object(fields).to_string().into_bytes()))
            }
            (BodyEncoding::Form(styles), given) => Ok((FORM, encode_form(styles, &given.into_fields()?).into_bytes())),
            (BodyEncoding::Parts(files), given) => encode_multipart(files, &given.into_fields()?),
            (BodyEncoding::Text(kind), BodyInput::Whole(value)) => {
                Ok((kind.clone(), to_plain_text(&value).into_bytes()))
            }
            (BodyEncoding::Text(_), BodyInput::Fields(_)) => Err("this body has no fields".to_owned()),
        }
    }
}

impl BodyInput {
    fn into_fields(self) -> Result<Map<String, Value>, String> {
        match self {
            BodyInput::Fields(fields) | BodyInput::Whole(Value::Object(fields)) => Ok(fields),
            BodyInput::Whole(_) => Err("`body` must be an object: it is sent as a form".to_owned()),
        }
    }
}

/// Without a style of its own, a list becomes one field per item, and an object becomes JSON.
fn encode_form(styles: &BTreeMap<String, ParameterStyle>, fields: &Map<String, Value>) -> String {
    let mut written = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        let style = match value {
            Value::Object(_) => ParameterStyle::Json,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                ParameterStyle::Apart
            }
        };
        written.extend_pairs(styles.get(name).copied().unwrap_or(style).pairs(name, value));
    }
    written.finish()
}

/// Writes `multipart/form-data` with an unpredictable boundary.
fn encode_multipart(files: &BTreeSet<String>, fields: &Map<String, Value>) -> Result<(HeaderValue, Vec<u8>), String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let boundary = format!("{:032x}", u128::from_ne_bytes(random));
    let mut body = String::new();
    // Writing to a text cannot fail.
    for (name, value) in fields {
        let items = value
            .as_array()
            .map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        let written = escape_field_name(name);
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
            let _ = write!(body, "\r\n\r\n{}\r\n", to_plain_text(item));
        }
    }
    let _ = write!(body, "--{boundary}--\r\n");
    let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={boundary}"));
    Ok((kind.map_err(|error| error.to_string())?, body.into_bytes()))
}

/// Quotes a field's name as browsers do.
fn escape_field_name(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests;
