//! Converts the keywords of a single schema: types, values, fields and items.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::combine::union;
use super::convert::{SchemaConverter, keyword_list};
use super::{AdditionalKeys, LiteralShape, ObjectField, ObjectShape, SchemaAnnotations, SchemaShape, TupleShape};

/// The most values of an `enum`, and the most bytes of all of them as text.
const MAX_ENUM_VALUES: usize = 400;
const MAX_ENUM_BYTES: usize = 16 * 1024;
/// The most bytes of a text that becomes a literal.
const MAX_LITERAL_BYTES: usize = 200;
/// The most fields of an object.
const MAX_FIELDS: usize = 250;
/// The most items of a tuple.
const MAX_TUPLE_ITEMS: usize = 32;

const OBJECT_KEYWORDS: [&str; 9] = [
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
const ARRAY_KEYWORDS: [&str; 6] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
];
const STRING_KEYWORDS: [&str; 5] = [
    "minLength",
    "maxLength",
    "pattern",
    "contentEncoding",
    "contentMediaType",
];
const NUMBER_KEYWORDS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

impl<'a> SchemaConverter<'a> {
    /// Converts the keywords other than references and combinations.
    pub(super) fn convert_keywords(&mut self, schema: &'a Map<String, Value>, depth: usize) -> SchemaShape {
        let kinds = match schema.get("type") {
            Some(Value::String(kind)) => self.convert_type(kind, schema, depth),
            Some(Value::Array(kinds)) => {
                let mut shapes = Vec::new();
                for kind in kinds.iter().take(MAX_TUPLE_ITEMS) {
                    shapes.push(match kind.as_str() {
                        Some(kind) => self.convert_type(kind, schema, depth),
                        None => self.elide("malformed parts"),
                    });
                }
                union(shapes)
            }
            Some(_) => self.elide("malformed parts"),
            None => self.convert_untyped(schema, depth),
        };
        let mut shape = kinds;
        if let Some(value) = schema.get("const") {
            let literal = self.convert_literal(value, depth);
            shape = self.intersect_shapes(shape, literal);
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let one_of = self.convert_enum(values, depth);
            shape = self.intersect_shapes(shape, one_of);
        }
        shape
    }

    fn convert_type(&mut self, kind: &str, schema: &'a Map<String, Value>, depth: usize) -> SchemaShape {
        match kind {
            "null" => SchemaShape::Null,
            "boolean" | "bool" => SchemaShape::Boolean,
            "integer" | "int" => SchemaShape::Integer,
            "number" | "float" | "double" => SchemaShape::Number,
            "string" | "str" => SchemaShape::String,
            "array" | "list" => self.convert_array(schema, depth),
            "object" | "dict" => SchemaShape::Object(self.convert_object(schema, depth)),
            _ => self.elide("types that JSON Schema does not have"),
        }
    }

    /// Infers the type from the keywords, for a schema without `type`.
    fn convert_untyped(&mut self, schema: &'a Map<String, Value>, depth: usize) -> SchemaShape {
        if ["const", "enum", "$ref"].iter().any(|key| schema.contains_key(*key)) {
            return SchemaShape::Unknown;
        }
        let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
        let mut shapes = Vec::new();
        if has(&OBJECT_KEYWORDS) {
            shapes.push(SchemaShape::Object(self.convert_object(schema, depth)));
        }
        if has(&ARRAY_KEYWORDS) {
            shapes.push(self.convert_array(schema, depth));
        }
        if has(&STRING_KEYWORDS) {
            shapes.push(SchemaShape::String);
        }
        if has(&NUMBER_KEYWORDS) {
            shapes.push(SchemaShape::Number);
        }
        if shapes.is_empty() {
            return match schema.get("format").and_then(Value::as_str) {
                Some("int32" | "int64") => SchemaShape::Integer,
                Some("float" | "double") => SchemaShape::Number,
                Some(_) => SchemaShape::String,
                None => SchemaShape::Unknown,
            };
        }
        union(shapes)
    }

    fn convert_object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> ObjectShape {
        let required: BTreeSet<&str> = keyword_list(schema, "required")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut known: Vec<(&'a String, &'a Value)> = match schema.get("properties") {
            Some(Value::Object(properties)) => properties.iter().collect(),
            Some(_) => {
                self.elide("malformed parts");
                Vec::new()
            }
            None => Vec::new(),
        };
        known.sort_by_key(|(name, _)| (!required.contains(name.as_str()), *name));
        let many = known.len() > MAX_FIELDS;
        known.truncate(MAX_FIELDS);
        let schemas: Vec<_> = known.iter().map(|(_, schema)| *schema).collect();
        let shapes = self.convert_schemas(&schemas, depth + 1);
        let mut fields: Vec<ObjectField> = known
            .iter()
            .zip(shapes)
            .map(|((name, schema), shape)| ObjectField {
                name: (*name).clone(),
                shape,
                required: required.contains(name.as_str()),
                annotations: SchemaAnnotations::from_schema(schema),
            })
            .collect();
        let unsaid: Vec<_> = required
            .iter()
            .filter(|name| !known.iter().any(|(known, _)| known == *name))
            .collect();
        fields.extend(unsaid.into_iter().take(MAX_FIELDS).map(|name| ObjectField {
            name: (*name).to_owned(),
            shape: SchemaShape::Unknown,
            required: true,
            annotations: SchemaAnnotations::default(),
        }));
        let mut rest = self.additional_keys(schema, depth);
        if many {
            self.elide("fields of an object that has very many");
            rest = AdditionalKeys::Open(Box::new(SchemaShape::Unknown));
        }
        let mut object = ObjectShape {
            fields,
            additional: rest,
        };
        object.sort_fields();
        object
    }

    fn additional_keys(&mut self, schema: &'a Map<String, Value>, depth: usize) -> AdditionalKeys {
        let patterns: Vec<_> = match schema.get("patternProperties") {
            Some(Value::Object(patterns)) => patterns.values().take(MAX_TUPLE_ITEMS).collect(),
            _ => Vec::new(),
        };
        let patterned = if patterns.is_empty() {
            SchemaShape::Never
        } else {
            union(self.convert_schemas(&patterns, depth + 1))
        };
        let additional = schema
            .get("additionalProperties")
            .or_else(|| schema.get("unevaluatedProperties"));
        match additional {
            Some(Value::Bool(true)) => AdditionalKeys::Open(Box::new(SchemaShape::Unknown)),
            Some(Value::Bool(false)) if patterns.is_empty() => AdditionalKeys::Closed,
            Some(additional @ Value::Object(_)) => {
                let shape = self.convert_schema(additional, depth + 1);
                AdditionalKeys::Open(Box::new(union([patterned, shape])))
            }
            _ if patterns.is_empty() => AdditionalKeys::Unspecified,
            _ => AdditionalKeys::Open(Box::new(patterned)),
        }
    }

    fn convert_array(&mut self, schema: &'a Map<String, Value>, depth: usize) -> SchemaShape {
        let (places, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(places)), rest) => (places, rest),
            (_, Some(Value::Array(places))) => (places, schema.get("additionalItems")),
            (_, Some(item)) => {
                let item = self.convert_schema(item, depth + 1);
                return SchemaShape::List(Box::new(item));
            }
            (_, None) => return SchemaShape::List(Box::new(SchemaShape::Unknown)),
        };
        if places.len() > MAX_TUPLE_ITEMS {
            self.elide("places of a very long tuple");
            return SchemaShape::List(Box::new(SchemaShape::Unknown));
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
        let items = self.convert_schemas(&places, depth + 1);
        let rest = match rest {
            _ if full => None,
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(Box::new(self.convert_schema(schema, depth + 1))),
            None => Some(Box::new(SchemaShape::Unknown)),
        };
        SchemaShape::Tuple(TupleShape { items, needed, rest })
    }

    fn convert_enum(&mut self, values: &[Value], depth: usize) -> SchemaShape {
        let text: usize = values.iter().filter_map(Value::as_str).map(str::len).sum();
        if values.len() > MAX_ENUM_VALUES || text > MAX_ENUM_BYTES {
            self.elide("values of a very long `enum`");
            return union(values.iter().map(shape_of_value).take(16 * MAX_ENUM_VALUES));
        }
        let shapes: Vec<_> = values.iter().map(|value| self.convert_literal(value, depth)).collect();
        union(shapes)
    }

    fn convert_literal(&mut self, value: &Value, depth: usize) -> SchemaShape {
        if depth > MAX_TUPLE_ITEMS {
            return self.elide("parts nested very deep");
        }
        match value {
            Value::Null => SchemaShape::Null,
            Value::Bool(value) => SchemaShape::Literal(LiteralShape::Boolean(*value)),
            Value::Number(value) => SchemaShape::Literal(LiteralShape::Number(value.clone())),
            Value::String(text) if text.len() > MAX_LITERAL_BYTES => {
                self.elide("very long values");
                SchemaShape::String
            }
            Value::String(text) => SchemaShape::Literal(LiteralShape::String(text.clone())),
            Value::Array(items) if items.len() <= MAX_TUPLE_ITEMS => {
                let items: Vec<_> = items.iter().map(|item| self.convert_literal(item, depth + 1)).collect();
                let needed = items.len();
                SchemaShape::Tuple(TupleShape {
                    items,
                    needed,
                    rest: None,
                })
            }
            Value::Object(fields) if fields.len() <= MAX_TUPLE_ITEMS => {
                let fields = fields.iter().map(|(name, value)| ObjectField {
                    name: name.clone(),
                    shape: self.convert_literal(value, depth + 1),
                    required: true,
                    annotations: SchemaAnnotations::default(),
                });
                let fields = fields.collect();
                SchemaShape::Object(ObjectShape {
                    fields,
                    additional: AdditionalKeys::Closed,
                })
            }
            Value::Array(_) | Value::Object(_) => {
                self.elide("very long values");
                shape_of_value(value)
            }
        }
    }
}

/// The shape of a value's type, without the value.
fn shape_of_value(value: &Value) -> SchemaShape {
    match value {
        Value::Null => SchemaShape::Null,
        Value::Bool(_) => SchemaShape::Boolean,
        Value::Number(value) if value.is_f64() => SchemaShape::Number,
        Value::Number(_) => SchemaShape::Integer,
        Value::String(_) => SchemaShape::String,
        Value::Array(_) => SchemaShape::List(Box::new(SchemaShape::Unknown)),
        Value::Object(_) => SchemaShape::Object(ObjectShape::any()),
    }
}
