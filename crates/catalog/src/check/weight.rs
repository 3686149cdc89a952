//! Estimates the cost of a schema: `allOf`, `anyOf` and references multiply, and a schema may refer to itself endlessly.
#![expect(clippy::wildcard_enum_match_arm, reason = "only objects and lists hold schemas")]

use std::collections::HashMap;

use serde_json::Value;

/// The most schemas that are evaluated for one value.
const MOST: u64 = 20_000;
/// The most schemas in a document.
const SCHEMAS: usize = 100_000;
/// The deepest nesting of a document.
const DEPTH: usize = 120;

const ONE: [&str; 4] = ["not", "if", "then", "else"];
const MANY: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether checking any value against any part of the schema has an affordable cost.
pub(super) fn bearable(schema: &Value) -> bool {
    let mut scale = Scale {
        document: schema,
        known: HashMap::new(),
        schemas: 0,
    };
    scale.walk(schema, 0)
}

struct Scale<'a> {
    document: &'a Value,
    /// The cost of each schema by its address; `None` while it is being computed.
    known: HashMap<usize, Option<u64>>,
    schemas: usize,
}

impl<'a> Scale<'a> {
    fn walk(&mut self, value: &'a Value, depth: usize) -> bool {
        self.schemas += 1;
        if self.schemas > SCHEMAS || depth > DEPTH {
            return false;
        }
        match value {
            Value::Object(object) => {
                self.weight(value, 0).is_some_and(|weight| weight <= MOST)
                    && object.values().all(|inner| self.walk(inner, depth + 1))
            }
            Value::Array(items) => items.iter().all(|inner| self.walk(inner, depth + 1)),
            _ => true,
        }
    }

    /// The number of schemas that are evaluated for the same value; `None` if it is infinite.
    fn weight(&mut self, schema: &'a Value, depth: usize) -> Option<u64> {
        let Value::Object(object) = schema else {
            return Some(1);
        };
        let address = std::ptr::from_ref(schema).addr();
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        if depth > DEPTH {
            return None;
        }
        self.known.insert(address, None);
        let mut parts: Vec<&'a Value> = ONE.iter().filter_map(|key| object.get(*key)).collect();
        for key in MANY {
            parts.extend(object.get(key).and_then(Value::as_array).into_iter().flatten());
        }
        if let Some(Value::String(reference)) = object.get("$ref")
            && let Some(target) = reference
                .strip_prefix('#')
                .and_then(|pointer| self.document.pointer(pointer))
        {
            parts.push(target);
        }
        let mut total = 1u64;
        for part in parts {
            total = total.saturating_add(self.weight(part, depth + 1)?);
        }
        self.known.insert(address, Some(total));
        Some(total)
    }
}
