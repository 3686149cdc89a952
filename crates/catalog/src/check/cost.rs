//! Estimates the cost of a schema: `allOf`, `anyOf` and references multiply, and a schema may refer to itself endlessly.
#![expect(clippy::wildcard_enum_match_arm, reason = "only objects and lists hold schemas")]

use std::collections::HashMap;

use serde_json::Value;

/// The most schemas that are evaluated for one value.
const MAX_EVALUATIONS: u64 = 20_000;
/// The most schemas in a document.
const MAX_SCHEMAS: usize = 100_000;
/// The deepest nesting of a document.
const MAX_DEPTH: usize = 120;

const SINGLE_KEYWORDS: [&str; 4] = ["not", "if", "then", "else"];
const LIST_KEYWORDS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether checking any value against any part of the schema has an affordable cost.
pub(super) fn is_affordable(schema: &Value) -> bool {
    let mut scale = CostEstimator {
        document: schema,
        known: HashMap::new(),
        schemas: 0,
    };
    scale.visit_schemas(schema, 0)
}

struct CostEstimator<'a> {
    document: &'a Value,
    /// The cost of each schema by its address; `None` while it is being computed.
    known: HashMap<usize, Option<u64>>,
    schemas: usize,
}

impl<'a> CostEstimator<'a> {
    fn visit_schemas(&mut self, value: &'a Value, depth: usize) -> bool {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS || depth > MAX_DEPTH {
            return false;
        }
        match value {
            Value::Object(object) => {
                self.evaluation_cost(value, 0)
                    .is_some_and(|weight| weight <= MAX_EVALUATIONS)
                    && object.values().all(|inner| self.visit_schemas(inner, depth + 1))
            }
            Value::Array(items) => items.iter().all(|inner| self.visit_schemas(inner, depth + 1)),
            _ => true,
        }
    }

    /// The number of schemas that are evaluated for the same value; `None` if it is infinite.
    fn evaluation_cost(&mut self, schema: &'a Value, depth: usize) -> Option<u64> {
        let Value::Object(object) = schema else {
            return Some(1);
        };
        let address = std::ptr::from_ref(schema).addr();
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        if depth > MAX_DEPTH {
            return None;
        }
        self.known.insert(address, None);
        let mut parts: Vec<&'a Value> = SINGLE_KEYWORDS.iter().filter_map(|key| object.get(*key)).collect();
        for key in LIST_KEYWORDS {
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
            total = total.saturating_add(self.evaluation_cost(part, depth + 1)?);
        }
        self.known.insert(address, Some(total));
        Some(total)
    }
}
