//! Converts the keywords of a single schema: types, values, fields and items.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::combine::union;
use super::convert::{Walk, list};
use super::{Field, Literal, Object, Rest, Shape, Tuple, Words};

/// The most values of an `enum`, and the most bytes of all of them as text.
const VALUES: usize = 400;
const TEXT: usize = 16 * 1024;
/// The most bytes of a text that becomes a literal.
const SPELT: usize = 200;
/// The most fields of an object.
const FIELDS: usize = 250;
/// The most items of a tuple.
const PLACES: usize = 32;

const OBJECT: [&str; 9] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "unevaluatedProperties",
];
const ARRAY: [&str; 6] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
];
const STRING: [&str; 5] = [
    "minLength",
    "maxLength",
    "pattern",
    "contentEncoding",
    "contentMediaType",
];
const NUMBER: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

impl<'a> Walk<'a> {
    /// Converts the keywords other than references and combinations.
    pub(super) fn plain(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        let kinds = match schema.get("type") {
            Some(Value::String(kind)) => self.kind(kind, schema, depth),
            Some(Value::Array(kinds)) => {
                let mut shapes = Vec::new();
                for kind in kinds.iter().take(PLACES) {
                    shapes.push(match kind.as_str() {
                        Some(kind) => self.kind(kind, schema, depth),
                        None => self.elide("malformed parts"),
                    });
                }
                union(shapes)
            }
            Some(_) => self.elide("malformed parts"),
            None => self.inferred(schema, depth),
        };
        let mut shape = kinds;
        if let Some(value) = schema.get("const") {
            let literal = self.literal(value, depth);
            shape = self.meet(shape, literal);
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let one_of = self.values(values, depth);
            shape = self.meet(shape, one_of);
        }
        shape
    }

    fn kind(&mut self, kind: &str, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        match kind {
            "null" => Shape::Null,
            "boolean" | "bool" => Shape::Boolean,
            "integer" | "int" => Shape::Integer,
            "number" | "float" | "double" => Shape::Number,
            "string" | "str" => Shape::String,
            "array" | "list" => self.array(schema, depth),
            "object" | "dict" => Shape::Object(self.object(schema, depth)),
            _ => self.elide("types that JSON Schema does not have"),
        }
    }

    /// Infers the type from the keywords, for a schema without `type`.
    fn inferred(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        if ["const", "enum", "$ref"].iter().any(|key| schema.contains_key(*key)) {
            return Shape::Unknown;
        }
        let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
        let mut shapes = Vec::new();
        if has(&OBJECT) {
            shapes.push(Shape::Object(self.object(schema, depth)));
        }
        if has(&ARRAY) {
            shapes.push(self.array(schema, depth));
        }
        if has(&STRING) {
            shapes.push(Shape::String);
        }
        if has(&NUMBER) {
            shapes.push(Shape::Number);
        }
        if shapes.is_empty() {
            return match schema.get("format").and_then(Value::as_str) {
                Some("int32" | "int64") => Shape::Integer,
                Some("float" | "double") => Shape::Number,
                Some(_) => Shape::String,
                None => Shape::Unknown,
            };
        }
        union(shapes)
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Object {
        let required: BTreeSet<&str> = list(schema, "required").iter().filter_map(Value::as_str).collect();
        let mut known: Vec<(&'a String, &'a Value)> = match schema.get("properties") {
            Some(Value::Object(properties)) => properties.iter().collect(),
            Some(_) => {
                self.elide("malformed parts");
                Vec::new()
            }
            None => Vec::new(),
        };
        known.sort_by_key(|(name, _)| (!required.contains(name.as_str()), *name));
        let many = known.len() > FIELDS;
        known.truncate(FIELDS);
        let schemas: Vec<_> = known.iter().map(|(_, schema)| *schema).collect();
        let shapes = self.shapes(&schemas, depth + 1);
        let mut fields: Vec<Field> = known
            .iter()
            .zip(shapes)
            .map(|((name, schema), shape)| Field {
                name: (*name).clone(),
                shape,
                required: required.contains(name.as_str()),
                words: Words::of(schema),
            })
            .collect();
        let unsaid: Vec<_> = required
            .iter()
            .filter(|name| !known.iter().any(|(known, _)| known == *name))
            .collect();
        fields.extend(unsaid.into_iter().take(FIELDS).map(|name| Field {
            name: (*name).to_owned(),
            shape: Shape::Unknown,
            required: true,
            words: Words::default(),
        }));
        let mut rest = self.rest(schema, depth);
        if many {
            self.elide("fields of an object that has very many");
            rest = Rest::Open(Box::new(Shape::Unknown));
        }
        let mut object = Object { fields, rest };
        object.sort();
        object
    }

    fn rest(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Rest {
        let patterns: Vec<_> = match schema.get("patternProperties") {
            Some(Value::Object(patterns)) => patterns.values().take(PLACES).collect(),
            _ => Vec::new(),
        };
        let patterned = if patterns.is_empty() {
            Shape::Never
        } else {
            union(self.shapes(&patterns, depth + 1))
        };
        let additional = schema
            .get("additionalProperties")
            .or_else(|| schema.get("unevaluatedProperties"));
        match additional {
            Some(Value::Bool(true)) => Rest::Open(Box::new(Shape::Unknown)),
            Some(Value::Bool(false)) if patterns.is_empty() => Rest::Closed,
            Some(additional @ Value::Object(_)) => {
                let shape = self.shape(additional, depth + 1);
                Rest::Open(Box::new(union([patterned, shape])))
            }
            _ if patterns.is_empty() => Rest::Unsaid,
            _ => Rest::Open(Box::new(patterned)),
        }
    }

    fn array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        let (places, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(places)), rest) => (places, rest),
            (_, Some(Value::Array(places))) => (places, schema.get("additionalItems")),
            (_, Some(item)) => {
                let item = self.shape(item, depth + 1);
                return Shape::List(Box::new(item));
            }
            (_, None) => return Shape::List(Box::new(Shape::Unknown)),
        };
        if places.len() > PLACES {
            self.elide("places of a very long tuple");
            return Shape::List(Box::new(Shape::Unknown));
        }
        let number = |key: &str| {
            schema
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|value| usize::try_from(value).ok())
        };
        let needed = number("minItems").unwrap_or(0).min(places.len());
        let full = number("maxItems").is_some_and(|most| most <= places.len());
        let places: Vec<_> = places.iter().collect();
        let items = self.shapes(&places, depth + 1);
        let rest = match rest {
            _ if full => None,
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(Box::new(self.shape(schema, depth + 1))),
            None => Some(Box::new(Shape::Unknown)),
        };
        Shape::Tuple(Tuple { items, needed, rest })
    }

    fn values(&mut self, values: &[Value], depth: usize) -> Shape {
        let text: usize = values.iter().filter_map(Value::as_str).map(str::len).sum();
        if values.len() > VALUES || text > TEXT {
            self.elide("values of a very long `enum`");
            return union(values.iter().map(kind_of).take(16 * VALUES));
        }
        let shapes: Vec<_> = values.iter().map(|value| self.literal(value, depth)).collect();
        union(shapes)
    }

    fn literal(&mut self, value: &Value, depth: usize) -> Shape {
        if depth > PLACES {
            return self.elide("parts nested very deep");
        }
        match value {
            Value::Null => Shape::Null,
            Value::Bool(value) => Shape::Literal(Literal::Boolean(*value)),
            Value::Number(value) => Shape::Literal(Literal::Number(value.clone())),
            Value::String(text) if text.len() > SPELT => {
                self.elide("very long values");
                Shape::String
            }
            Value::String(text) => Shape::Literal(Literal::String(text.clone())),
            Value::Array(items) if items.len() <= PLACES => {
                let items: Vec<_> = items.iter().map(|item| self.literal(item, depth + 1)).collect();
                let needed = items.len();
                Shape::Tuple(Tuple {
                    items,
                    needed,
                    rest: None,
                })
            }
            Value::Object(fields) if fields.len() <= PLACES => {
                let fields = fields.iter().map(|(name, value)| Field {
                    name: name.clone(),
                    shape: self.literal(value, depth + 1),
                    required: true,
                    words: Words::default(),
                });
                let fields = fields.collect();
                Shape::Object(Object {
                    fields,
                    rest: Rest::Closed,
                })
            }
            Value::Array(_) | Value::Object(_) => {
                self.elide("very long values");
                kind_of(value)
            }
        }
    }
}

/// The shape of a value's type, without the value.
fn kind_of(value: &Value) -> Shape {
    match value {
        Value::Null => Shape::Null,
        Value::Bool(_) => Shape::Boolean,
        Value::Number(value) if value.is_f64() => Shape::Number,
        Value::Number(_) => Shape::Integer,
        Value::String(_) => Shape::String,
        Value::Array(_) => Shape::List(Box::new(Shape::Unknown)),
        Value::Object(_) => Shape::Object(Object::any()),
    }
}
