//! Derives a result schema from observed results, for tools whose server does not declare one.
//!
//! The schema only widens: an observed shape stays possible. Values are never stored, only their types and the names of keys, and
//! of these only names of fields. The schema is visible to everybody, and the keys of a map may be somebody's data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The deepest level of a result that is observed.
const MAX_DEPTH: usize = 6;
/// The most keys of all objects together.
const MAX_TOTAL_KEYS: usize = 200;
/// The most keys of one object; an object with more is a map.
const MAX_OBJECT_KEYS: usize = 100;
/// The most items of a list that are observed.
const MAX_ITEMS: usize = 200;
/// The most bytes of a stored key, and the most digits in it: keys with more digits are identifiers.
const MAX_KEY_BYTES: usize = 64;
const MAX_KEY_DIGITS: usize = 4;
/// The most keys of an object before it becomes a map, if none of them is in every object.
const MAX_OPTIONAL_KEYS: usize = 8;

/// The schema of everything observed so far and of this result. The same results in the same order give the same schema. A
/// previous schema that this function did not write allows anything.
pub fn observe(previous: Option<Value>, result: &Value) -> Value {
    let seen = ObservedShape::from_value(result, MAX_DEPTH);
    let mut seen = match previous {
        Some(previous) => ObservedShape::from_schema(&previous, MAX_DEPTH + 1).merge(seen),
        None => seen,
    };
    let mut depth = MAX_DEPTH;
    while seen.key_count() > MAX_TOTAL_KEYS && depth > 1 {
        depth -= 1;
        seen.truncate_depth(depth);
    }
    seen.to_schema()
}

/// The observed shape at one position.
#[derive(Debug, Clone, Default, PartialEq)]
struct ObservedShape {
    /// Anything is possible here; the other fields then have no meaning.
    anything: bool,
    types: BTreeSet<&'static str>,
    /// Known keys, and whether every object had them.
    fields: BTreeMap<String, (ObservedShape, bool)>,
    /// The shape of the values of any key, for objects that are maps.
    map: Option<Box<ObservedShape>>,
    items: Option<Box<ObservedShape>>,
}

impl ObservedShape {
    fn anything() -> ObservedShape {
        ObservedShape {
            anything: true,
            ..ObservedShape::default()
        }
    }

    fn of_type(kind: &'static str) -> ObservedShape {
        ObservedShape {
            types: BTreeSet::from([kind]),
            ..ObservedShape::default()
        }
    }

    fn from_value(value: &Value, depth: usize) -> ObservedShape {
        match value {
            Value::Null => ObservedShape::of_type("null"),
            Value::Bool(_) => ObservedShape::of_type("boolean"),
            Value::Number(number) if number.is_f64() => ObservedShape::of_type("number"),
            Value::Number(_) => ObservedShape::of_type("integer"),
            Value::String(_) => ObservedShape::of_type("string"),
            Value::Array(_) | Value::Object(_) if depth == 0 => ObservedShape::anything(),
            Value::Array(items) => {
                let items = items
                    .iter()
                    .take(MAX_ITEMS)
                    .map(|item| ObservedShape::from_value(item, depth - 1));
                ObservedShape {
                    items: items.reduce(ObservedShape::merge).map(Box::new),
                    ..ObservedShape::of_type("array")
                }
            }
            Value::Object(object) => {
                let mut seen = ObservedShape::of_type("object");
                let fit = object.len() <= MAX_OBJECT_KEYS && object.keys().all(|key| names_a_field(key));
                if fit && !may_name_people(object) {
                    let fields = object
                        .iter()
                        .map(|(key, value)| (key.clone(), (ObservedShape::from_value(value, depth - 1), true)));
                    seen.fields = fields.collect();
                } else {
                    let values = object
                        .values()
                        .take(MAX_ITEMS)
                        .map(|value| ObservedShape::from_value(value, depth - 1));
                    seen.map = values.reduce(ObservedShape::merge).map(Box::new);
                }
                seen
            }
        }
    }

    /// Parses a schema that [`ObservedShape::to_schema`] wrote.
    fn from_schema(schema: &Value, depth: usize) -> ObservedShape {
        let Value::Object(schema) = schema else {
            return ObservedShape::anything();
        };
        let names = match schema.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let known = ["array", "boolean", "integer", "null", "number", "object", "string"];
        let types: BTreeSet<&'static str> = known.into_iter().filter(|kind| names.contains(kind)).collect();
        if types.is_empty() || depth == 0 {
            return ObservedShape::anything();
        }
        let inner = |key: &str| {
            schema
                .get(key)
                .map(|schema| Box::new(ObservedShape::from_schema(schema, depth - 1)))
        };
        let required: BTreeSet<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => BTreeSet::new(),
        };
        let fields = match schema.get("properties") {
            Some(Value::Object(fields)) => fields
                .iter()
                .take(MAX_TOTAL_KEYS)
                .map(|(key, schema)| {
                    (
                        key.clone(),
                        (
                            ObservedShape::from_schema(schema, depth - 1),
                            required.contains(key.as_str()),
                        ),
                    )
                })
                .collect(),
            _ => BTreeMap::new(),
        };
        ObservedShape {
            anything: false,
            map: inner("additionalProperties"),
            items: inner("items"),
            types,
            fields,
        }
    }

    fn merge(mut self, other: ObservedShape) -> ObservedShape {
        if self.anything || other.anything {
            return ObservedShape::anything();
        }
        let (here, there) = (self.types.contains("object"), other.types.contains("object"));
        self.types.extend(other.types);
        if self.types.contains("number") {
            self.types.remove("integer");
        }
        self.items = merge_options(self.items, other.items);
        self.map = merge_options(self.map, other.map);
        let both = !self.fields.is_empty() && !other.fields.is_empty();
        // Objects without a common key are parts of a map.
        let apart = both && !other.fields.keys().any(|key| self.fields.contains_key(key));
        if here && there {
            for (key, (_, always)) in &mut self.fields {
                *always &= other.fields.contains_key(key);
            }
        }
        for (key, (seen, always)) in other.fields {
            let known = self.fields.remove(&key);
            let joined = match known {
                Some((known, before)) => (known.merge(seen), before && always),
                None => (seen, always && !here),
            };
            self.fields.insert(key, joined);
        }
        let loose = self.fields.len() > MAX_OPTIONAL_KEYS && !self.fields.values().any(|(_, always)| *always);
        if apart || loose || self.map.is_some() || self.fields.len() > MAX_OBJECT_KEYS {
            self.widen_to_map();
        }
        self
    }

    /// Turns the known keys into a map with any keys.
    fn widen_to_map(&mut self) {
        let fields = std::mem::take(&mut self.fields).into_values().map(|(seen, _)| seen);
        let all = self.map.take().map(|map| *map).into_iter().chain(fields);
        self.map = all.reduce(ObservedShape::merge).map(Box::new);
    }

    fn key_count(&self) -> usize {
        let inner = self.items.iter().chain(&self.map).map(|inner| inner.key_count());
        let fields = self.fields.values().map(|(seen, _)| 1 + seen.key_count());
        inner.sum::<usize>() + fields.sum::<usize>()
    }

    /// Forgets everything below a depth.
    fn truncate_depth(&mut self, depth: usize) {
        if depth == 0 {
            if self.types.contains("array") || self.types.contains("object") {
                *self = ObservedShape::anything();
            }
            return;
        }
        self.items
            .iter_mut()
            .chain(&mut self.map)
            .for_each(|inner| inner.truncate_depth(depth - 1));
        self.fields
            .values_mut()
            .for_each(|(seen, _)| seen.truncate_depth(depth - 1));
    }

    fn to_schema(&self) -> Value {
        let mut schema = Map::new();
        if self.anything || self.types.is_empty() {
            return Value::Object(schema);
        }
        let types: Vec<&str> = self.types.iter().copied().collect();
        let kind = if let [one] = types.as_slice() {
            json!(one)
        } else {
            json!(types)
        };
        schema.insert("type".to_owned(), kind);
        if let Some(items) = &self.items {
            schema.insert("items".to_owned(), items.to_schema());
        }
        if let Some(map) = &self.map {
            schema.insert("additionalProperties".to_owned(), map.to_schema());
        }
        if !self.fields.is_empty() {
            let fields = self
                .fields
                .iter()
                .map(|(key, (seen, _))| (key.clone(), seen.to_schema()));
            schema.insert("properties".to_owned(), Value::Object(fields.collect()));
            let required: Vec<&String> = self
                .fields
                .iter()
                .filter(|(_, (_, always))| *always)
                .map(|(key, _)| key)
                .collect();
            if !required.is_empty() {
                schema.insert("required".to_owned(), json!(required));
            }
        }
        Value::Object(schema)
    }
}

/// Whether a key looks like the name of a field, and not like a person's name, a number or a sentence.
fn names_a_field(key: &str) -> bool {
    let name = key.strip_prefix('@').unwrap_or(key);
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '_' | '$'));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.$:".contains(&byte);
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    starts && key.len() <= MAX_KEY_BYTES && digits <= MAX_KEY_DIGITS && name.bytes().all(plain)
}

/// Whether all keys look like names and their values have the same type, as in `{"Ann": 1, "Bob": 2}`. Such keys may be fields,
/// but are not stored.
fn may_name_people(object: &Map<String, Value>) -> bool {
    let name = |key: &String| {
        let rest = key.strip_prefix(|first: char| first.is_ascii_uppercase());
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase()))
    };
    let kinds = object.values().map(|value| ObservedShape::from_value(value, 1).types);
    !object.is_empty() && object.keys().all(name) && kinds.collect::<BTreeSet<_>>().len() == 1
}

fn merge_options(one: Option<Box<ObservedShape>>, other: Option<Box<ObservedShape>>) -> Option<Box<ObservedShape>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::new(one.merge(*other))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
