//! What is said of skills: texts and schemas that outlive the session they come from, and are everybody's to read.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::sight::{Side, Sight};

impl Sight {
    /// The words of the kinds that a text has something of, personal data or secrets.
    pub fn kinds_in(&self, text: &str) -> BTreeSet<String> {
        let found = self.way(Side::Form).1.find(text);
        found.iter().map(|one| one.kind.word().to_owned()).collect()
    }

    /// The same for what a schema says in words.
    pub fn kinds_in_schema(&self, schema: &Value) -> BTreeSet<String> {
        match schema {
            Value::String(text) => self.kinds_in(text),
            Value::Array(items) => items.iter().flat_map(|item| self.kinds_in_schema(item)).collect(),
            Value::Object(members) => members
                .iter()
                .filter(|(key, _)| !is_address(key))
                .flat_map(|(key, member)| self.kinds_in(key).into_iter().chain(self.kinds_in_schema(member)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => BTreeSet::new(),
        }
    }

    /// A text as any model may read it, whatever session it is in.
    pub fn told(&self, text: &str) -> String {
        self.way(Side::Form).1.redact(text).shown
    }

    /// The same for a schema.
    pub fn told_schema(&self, schema: Value) -> Value {
        match schema {
            Value::String(text) => Value::String(self.told(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.told_schema(item)).collect(),
            Value::Object(members) => {
                let told = members.into_iter().map(|(key, member)| {
                    if is_address(&key) {
                        (key, member)
                    } else {
                        (self.told(&key), self.told_schema(member))
                    }
                });
                Value::Object(told.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => schema,
        }
    }
}

/// Keys of schemas whose values are addresses of schemas.
fn is_address(key: &str) -> bool {
    key.starts_with('$')
}
