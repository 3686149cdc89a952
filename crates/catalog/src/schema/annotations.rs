//! Annotations of a schema: its description, and the bounds that a type cannot express.
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is malformed")]

use serde_json::{Map, Value};

/// The most bytes of a description that are stored; less of it is shown.
const MAX_DESCRIPTION_BYTES: usize = 4096;
/// The most characters of a default, a pattern or an example.
const MAX_VALUE_CHARS: usize = 80;

/// Keywords of bounds, which are shown unchanged.
const BOUND_KEYWORDS: [&str; 15] = [
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contentEncoding",
];

/// A description with tags; both are quotations from the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SchemaAnnotations {
    pub(crate) description: String,
    /// Pairs of a keyword and its value as JSON.
    pub(crate) tags: Vec<(&'static str, String)>,
}

impl SchemaAnnotations {
    /// Reads the annotations of a schema.
    pub(crate) fn from_schema(schema: &Value) -> SchemaAnnotations {
        let Value::Object(schema) = schema else {
            return SchemaAnnotations::default();
        };
        let mut words = SchemaAnnotations {
            description: read_description(schema),
            tags: Vec::new(),
        };
        if is_integer(schema) {
            words.tags.push(("integer", String::new()));
        }
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            words.tags.push(("default", show_value(default)));
        }
        // The branches of a nullable have the bounds of the value.
        let branches = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key));
        let branches = branches
            .filter_map(Value::as_array)
            .flatten()
            .take(8)
            .filter_map(Value::as_object);
        for schema in std::iter::once(schema).chain(branches) {
            for key in BOUND_KEYWORDS {
                let said = words.tags.iter().any(|(tag, _)| *tag == key);
                match schema.get(key) {
                    Some(bound @ (Value::Number(_) | Value::String(_))) if !said => {
                        words.tags.push((key, show_value(bound)));
                    }
                    Some(Value::Bool(true)) if !said => words.tags.push((key, String::new())),
                    _ => {}
                }
            }
        }
        if schema.get("deprecated") == Some(&Value::Bool(true)) {
            words.tags.push(("deprecated", String::new()));
        }
        if let Some(example) = first_example(schema) {
            words.tags.push(("example", show_value(example)));
        }
        words
    }

    /// These annotations, completed by those of another schema of the same value.
    pub(crate) fn completed_by(mut self, other: SchemaAnnotations) -> SchemaAnnotations {
        if self.description.is_empty() {
            self.description = other.description;
        }
        for tag in other.tags {
            if !self.tags.iter().any(|(name, _)| *name == tag.0) {
                self.tags.push(tag);
            }
        }
        self
    }
}

fn read_description(schema: &Map<String, Value>) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut end = text.len().min(MAX_DESCRIPTION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

fn is_integer(schema: &Map<String, Value>) -> bool {
    let is = |value: &Value| value.as_str() == Some("integer");
    schema.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(is),
        other => is(other),
    })
}

fn first_example(schema: &Map<String, Value>) -> Option<&Value> {
    let examples = schema.get("examples").and_then(Value::as_array);
    examples
        .and_then(|examples| examples.first())
        .or_else(|| schema.get("example"))
}

fn show_value(value: &Value) -> String {
    let text = match value {
        // A long text or a large value costs more space than it is worth.
        Value::String(text) if text.len() > 4 * MAX_VALUE_CHARS => {
            Value::String(text.chars().take(MAX_VALUE_CHARS).collect()).to_string()
        }
        Value::Array(items) if items.len() > MAX_VALUE_CHARS => "[…]".to_owned(),
        Value::Object(fields) if fields.len() > MAX_VALUE_CHARS => "{…}".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
