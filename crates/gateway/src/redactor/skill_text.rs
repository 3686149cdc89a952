//! Redacts the texts and schemas of saved skills, which outlive their session and which all sessions can read.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::rules::{Audience, RedactionRules};

impl RedactionRules {
    /// Returns the kinds of personal data and secrets that a text contains.
    pub fn kinds_in(&self, text: &str) -> BTreeSet<String> {
        let found = self.mode_for(Audience::Form).1.find(text);
        found.iter().map(|one| one.kind.as_str().to_owned()).collect()
    }

    /// Returns the kinds that the texts of a schema contain.
    pub fn kinds_in_schema(&self, schema: &Value) -> BTreeSet<String> {
        match schema {
            Value::String(text) => self.kinds_in(text),
            Value::Array(items) => items.iter().flat_map(|item| self.kinds_in_schema(item)).collect(),
            Value::Object(members) => members
                .iter()
                .filter(|(key, _)| !is_reference_key(key))
                .flat_map(|(key, member)| self.kinds_in(key).into_iter().chain(self.kinds_in_schema(member)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => BTreeSet::new(),
        }
    }

    /// Redacts a text that any model may read, in any session.
    pub fn redact_shared_text(&self, text: &str) -> String {
        self.mode_for(Audience::Form).1.redact(text).shown
    }

    /// Redacts a schema that any model may read.
    pub fn redact_shared_schema(&self, schema: Value) -> Value {
        match schema {
            Value::String(text) => Value::String(self.redact_shared_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_shared_schema(item)).collect(),
            Value::Object(members) => {
                let told = members.into_iter().map(|(key, member)| {
                    if is_reference_key(&key) {
                        (key, member)
                    } else {
                        (self.redact_shared_text(&key), self.redact_shared_schema(member))
                    }
                });
                Value::Object(told.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => schema,
        }
    }
}

/// Whether the values of this schema key are references to schemas.
fn is_reference_key(key: &str) -> bool {
    key.starts_with('$')
}
