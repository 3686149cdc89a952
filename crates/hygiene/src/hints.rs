//! Schema hints: what a JSON Schema says about the kinds of its values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::Kind;

/// Most levels of a schema that are read; each reference counts as one.
const DEPTH: usize = 16;

/// The kinds that a tool's schema states for its values. Hints add to what keys say but never override it, because
/// the tool wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    pub(crate) says: Option<Kind>,
    properties: BTreeMap<String, Hints>,
    items: Option<Box<Hints>>,
}

impl Hints {
    /// Returns hints that say nothing.
    pub fn none() -> Hints {
        Hints::default()
    }

    /// Reads the hints of a JSON Schema: from `format`, `x-pii` (a kind word), title and description.
    pub fn from_schema(schema: &Value) -> Hints {
        read(schema, schema, DEPTH)
    }

    pub(crate) fn property(&self, key: &str) -> Option<&Hints> {
        self.properties.get(key)
    }

    pub(crate) fn item(&self) -> Option<&Hints> {
        self.items.as_deref()
    }
}

fn read(schema: &Value, root: &Value, depth: usize) -> Hints {
    let mut hints = Hints::default();
    let Some(depth) = depth.checked_sub(1) else {
        return hints;
    };
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let place = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return place.map_or(hints, |target| read(target, root, depth));
    }
    hints.says = says(schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let read = |(key, schema): (&String, &Value)| (key.clone(), read(schema, root, depth));
        hints.properties.extend(properties.iter().map(read));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        hints.items = Some(Box::new(read(items, root, depth)));
    }
    let ways = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|way| schema.get(way)?.as_array());
    for way in ways.flatten() {
        hints.join(read(way, root, depth));
    }
    hints
}

impl Hints {
    fn join(&mut self, other: Hints) {
        self.says = self.says.or(other.says);
        for (key, hints) in other.properties {
            self.properties.entry(key).or_default().join(hints);
        }
        if self.items.is_none() {
            self.items = other.items;
        }
    }
}

fn says(schema: &Value) -> Option<Kind> {
    let word = schema.get("x-pii").and_then(Value::as_str);
    let marked = word.and_then(|word| Kind::ALL.into_iter().find(|kind| kind.word() == word));
    let format = match schema.get("format").and_then(Value::as_str) {
        Some("email" | "idn-email") => Some(Kind::Email),
        Some("ipv4" | "ipv6") => Some(Kind::Ip),
        Some("uri" | "url" | "iri") => Some(Kind::Url),
        Some("password") => Some(Kind::Secret),
        Some("phone") => Some(Kind::Phone),
        _ => None,
    };
    let described = || {
        ["title", "description"]
            .into_iter()
            .filter_map(|key| schema.get(key)?.as_str())
            .find_map(described)
    };
    marked.or(format).or_else(described)
}

/// Returns the kind that a short description names. Long ones mention many things.
fn described(text: &str) -> Option<Kind> {
    if text.len() > 80 {
        return None;
    }
    let small = text.to_lowercase();
    PHRASES
        .iter()
        .find(|(phrase, _)| small.contains(phrase))
        .map(|(_, kind)| *kind)
}

const PHRASES: [(&str, Kind); 16] = [
    ("email address", Kind::Email),
    ("e-mail address", Kind::Email),
    ("phone number", Kind::Phone),
    ("telephone number", Kind::Phone),
    ("mobile number", Kind::Phone),
    ("date of birth", Kind::BirthDate),
    ("social security", Kind::Ssn),
    ("card number", Kind::Card),
    ("passport number", Kind::NationalId),
    ("full name of", Kind::Name),
    ("first name", Kind::Name),
    ("last name", Kind::Name),
    ("customer's name", Kind::Name),
    ("home address", Kind::Address),
    ("postal address", Kind::Address),
    ("street address", Kind::Address),
];

#[cfg(test)]
mod tests;
