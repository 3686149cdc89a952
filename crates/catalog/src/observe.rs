//! Derives a result schema from observed results, for tools whose server does not declare one.
//!
//! The schema only widens: an observed shape stays possible. Values are never stored, only their types and the names of keys, and
//! of these only names of fields. The schema is visible to everybody, and the keys of a map may be somebody's data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The deepest level of a result that is observed.
const DEPTH: usize = 6;
/// The most keys of all objects together.
const KEYS: usize = 200;
/// The most keys of one object; an object with more is a map.
const FIELDS: usize = 100;
/// The most items of a list that are observed.
const ITEMS: usize = 200;
/// The most bytes of a stored key, and the most digits in it: keys with more digits are identifiers.
const KEY: usize = 64;
const DIGITS: usize = 4;
/// The most keys of an object before it becomes a map, if none of them is in every object.
const LOOSE: usize = 8;

/// The schema of everything observed so far and of this result. The same results in the same order give the same schema. A
/// previous schema that this function did not write allows anything.
pub fn observe(previous: Option<Value>, result: &Value) -> Value {
    let seen = Seen::value(result, DEPTH);
    let mut seen = match previous {
        Some(previous) => Seen::schema(&previous, DEPTH + 1).merge(seen),
        None => seen,
    };
    let mut depth = DEPTH;
    while seen.keys() > KEYS && depth > 1 {
        depth -= 1;
        seen.cut(depth);
    }
    seen.written()
}

/// The observed shape at one position.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    /// Anything is possible here; the other fields then have no meaning.
    anything: bool,
    types: BTreeSet<&'static str>,
    /// Known keys, and whether every object had them.
    fields: BTreeMap<String, (Seen, bool)>,
    /// The shape of the values of any key, for objects that are maps.
    map: Option<Box<Seen>>,
    items: Option<Box<Seen>>,
}

impl Seen {
    fn anything() -> Seen {
        Seen {
            anything: true,
            ..Seen::default()
        }
    }

    fn of(kind: &'static str) -> Seen {
        Seen {
            types: BTreeSet::from([kind]),
            ..Seen::default()
        }
    }

    fn value(value: &Value, depth: usize) -> Seen {
        match value {
            Value::Null => Seen::of("null"),
            Value::Bool(_) => Seen::of("boolean"),
            Value::Number(number) if number.is_f64() => Seen::of("number"),
            Value::Number(_) => Seen::of("integer"),
            Value::String(_) => Seen::of("string"),
            Value::Array(_) | Value::Object(_) if depth == 0 => Seen::anything(),
            Value::Array(items) => {
                let items = items.iter().take(ITEMS).map(|item| Seen::value(item, depth - 1));
                Seen {
                    items: items.reduce(Seen::merge).map(Box::new),
                    ..Seen::of("array")
                }
            }
            Value::Object(object) => {
                let mut seen = Seen::of("object");
                let fit = object.len() <= FIELDS && object.keys().all(|key| names_a_field(key));
                if fit && !may_name_people(object) {
                    let fields = object
                        .iter()
                        .map(|(key, value)| (key.clone(), (Seen::value(value, depth - 1), true)));
                    seen.fields = fields.collect();
                } else {
                    let values = object.values().take(ITEMS).map(|value| Seen::value(value, depth - 1));
                    seen.map = values.reduce(Seen::merge).map(Box::new);
                }
                seen
            }
        }
    }

    /// Parses a schema that [`Seen::written`] wrote.
    fn schema(schema: &Value, depth: usize) -> Seen {
        let Value::Object(schema) = schema else {
            return Seen::anything();
        };
        let names = match schema.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let known = ["array", "boolean", "integer", "null", "number", "object", "string"];
        let types: BTreeSet<&'static str> = known.into_iter().filter(|kind| names.contains(kind)).collect();
        if types.is_empty() || depth == 0 {
            return Seen::anything();
        }
        let inner = |key: &str| schema.get(key).map(|schema| Box::new(Seen::schema(schema, depth - 1)));
        let required: BTreeSet<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => BTreeSet::new(),
        };
        let fields = match schema.get("properties") {
            Some(Value::Object(fields)) => fields
                .iter()
                .take(KEYS)
                .map(|(key, schema)| {
                    (
                        key.clone(),
                        (Seen::schema(schema, depth - 1), required.contains(key.as_str())),
                    )
                })
                .collect(),
            _ => BTreeMap::new(),
        };
        Seen {
            anything: false,
            map: inner("additionalProperties"),
            items: inner("items"),
            types,
            fields,
        }
    }

    fn merge(mut self, other: Seen) -> Seen {
        if self.anything || other.anything {
            return Seen::anything();
        }
        let (here, there) = (self.types.contains("object"), other.types.contains("object"));
        self.types.extend(other.types);
        if self.types.contains("number") {
            self.types.remove("integer");
        }
        self.items = either(self.items, other.items);
        self.map = either(self.map, other.map);
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
        let loose = self.fields.len() > LOOSE && !self.fields.values().any(|(_, always)| *always);
        if apart || loose || self.map.is_some() || self.fields.len() > FIELDS {
            self.widen();
        }
        self
    }

    /// Turns the known keys into a map with any keys.
    fn widen(&mut self) {
        let fields = std::mem::take(&mut self.fields).into_values().map(|(seen, _)| seen);
        let all = self.map.take().map(|map| *map).into_iter().chain(fields);
        self.map = all.reduce(Seen::merge).map(Box::new);
    }

    fn keys(&self) -> usize {
        let inner = self.items.iter().chain(&self.map).map(|inner| inner.keys());
        let fields = self.fields.values().map(|(seen, _)| 1 + seen.keys());
        inner.sum::<usize>() + fields.sum::<usize>()
    }

    /// Forgets everything below a depth.
    fn cut(&mut self, depth: usize) {
        if depth == 0 {
            if self.types.contains("array") || self.types.contains("object") {
                *self = Seen::anything();
            }
            return;
        }
        self.items
            .iter_mut()
            .chain(&mut self.map)
            .for_each(|inner| inner.cut(depth - 1));
        self.fields.values_mut().for_each(|(seen, _)| seen.cut(depth - 1));
    }

    fn written(&self) -> Value {
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
            schema.insert("items".to_owned(), items.written());
        }
        if let Some(map) = &self.map {
            schema.insert("additionalProperties".to_owned(), map.written());
        }
        if !self.fields.is_empty() {
            let fields = self.fields.iter().map(|(key, (seen, _))| (key.clone(), seen.written()));
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
    starts && key.len() <= KEY && digits <= DIGITS && name.bytes().all(plain)
}

/// Whether all keys look like names and their values have the same type, as in `{"Ann": 1, "Bob": 2}`. Such keys may be fields,
/// but are not stored.
fn may_name_people(object: &Map<String, Value>) -> bool {
    let name = |key: &String| {
        let rest = key.strip_prefix(|first: char| first.is_ascii_uppercase());
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase()))
    };
    let kinds = object.values().map(|value| Seen::value(value, 1).types);
    !object.is_empty() && object.keys().all(name) && kinds.collect::<BTreeSet<_>>().len() == 1
}

fn either(one: Option<Box<Seen>>, other: Option<Box<Seen>>) -> Option<Box<Seen>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::new(one.merge(*other))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
