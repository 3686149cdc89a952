//! Schema hints: what a JSON Schema says about the kinds of its values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::SensitiveKind;

/// Most levels of a schema that are read; each reference counts as one.
const MAX_SCHEMA_DEPTH: usize = 16;

/// The kinds that a tool's schema states for its values. Hints add to what keys say but never override it, because
/// the tool wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaHints {
    pub(crate) says: Option<SensitiveKind>,
    properties: BTreeMap<String, SchemaHints>,
    items: Option<Box<SchemaHints>>,
}

impl SchemaHints {
    /// Returns hints that say nothing.
    pub fn none() -> SchemaHints {
        SchemaHints::default()
    }

    /// Reads the hints of a JSON Schema: from `format`, `x-pii` (a kind word), title and description.
    pub fn from_schema(schema: &Value) -> SchemaHints {
        read_schema(schema, schema, MAX_SCHEMA_DEPTH)
    }

    pub(crate) fn property(&self, key: &str) -> Option<&SchemaHints> {
        self.properties.get(key)
    }

    pub(crate) fn item(&self) -> Option<&SchemaHints> {
        self.items.as_deref()
    }
}

fn read_schema(schema: &Value, root: &Value, depth: usize) -> SchemaHints {
    let mut hints = SchemaHints::default();
    let Some(depth) = depth.checked_sub(1) else {
        return hints;
    };
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let place = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return place.map_or(hints, |target| read_schema(target, root, depth));
    }
    hints.says = declared_kind(schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let read = |(key, schema): (&String, &Value)| (key.clone(), read_schema(schema, root, depth));
        hints.properties.extend(properties.iter().map(read));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        hints.items = Some(Box::new(read_schema(items, root, depth)));
    }
    let ways = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|way| schema.get(way)?.as_array());
    for way in ways.flatten() {
        hints.merge(read_schema(way, root, depth));
    }
    hints
}

impl SchemaHints {
    fn merge(&mut self, other: SchemaHints) {
        self.says = self.says.or(other.says);
        for (key, hints) in other.properties {
            self.properties.entry(key).or_default().merge(hints);
        }
        if self.items.is_none() {
            self.items = other.items;
        }
    }
}

fn declared_kind(schema: &Value) -> Option<SensitiveKind> {
    let word = schema.get("x-pii").and_then(Value::as_str);
    let marked = word.and_then(|word| SensitiveKind::ALL.into_iter().find(|kind| kind.as_str() == word));
    let format = match schema.get("format").and_then(Value::as_str) {
        Some("email" | "idn-email") => Some(SensitiveKind::Email),
        Some("ipv4" | "ipv6") => Some(SensitiveKind::Ip),
        Some("uri" | "url" | "iri") => Some(SensitiveKind::Url),
        Some("password") => Some(SensitiveKind::Secret),
        Some("phone") => Some(SensitiveKind::Phone),
        _ => None,
    };
    let described = || {
        ["title", "description"]
            .into_iter()
            .filter_map(|key| schema.get(key)?.as_str())
            .find_map(kind_in_description)
    };
    marked.or(format).or_else(described)
}

/// Returns the kind that a short description names. Long ones mention many things.
fn kind_in_description(text: &str) -> Option<SensitiveKind> {
    if text.len() > 80 {
        return None;
    }
    let small = text.to_lowercase();
    KIND_PHRASES
        .iter()
        .find(|(phrase, _)| small.contains(phrase))
        .map(|(_, kind)| *kind)
}

const KIND_PHRASES: [(&str, SensitiveKind); 16] = [
    ("email address", SensitiveKind::Email),
    ("e-mail address", SensitiveKind::Email),
    ("phone number", SensitiveKind::Phone),
    ("telephone number", SensitiveKind::Phone),
    ("mobile number", SensitiveKind::Phone),
    ("date of birth", SensitiveKind::BirthDate),
    ("social security", SensitiveKind::Ssn),
    ("card number", SensitiveKind::Card),
    ("passport number", SensitiveKind::NationalId),
    ("full name of", SensitiveKind::Name),
    ("first name", SensitiveKind::Name),
    ("last name", SensitiveKind::Name),
    ("customer's name", SensitiveKind::Name),
    ("home address", SensitiveKind::Address),
    ("postal address", SensitiveKind::Address),
    ("street address", SensitiveKind::Address),
];

#[cfg(test)]
mod tests;
