//! Converts a schema to shapes: references, combinations and limits. The keywords of a single schema are in `plain`.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::combine::{intersect, union};
use super::references::{self, ReferenceTarget};
use super::{NamedShape, SchemaShape, SchemaTypes};

/// The deepest nesting of shapes; deeper parts are unknown.
const MAX_DEPTH: usize = 14;
/// The most schemas of a document that are read for its root, and in total.
const MAX_ROOT_SCHEMAS: usize = 3000;
const MAX_SCHEMAS: usize = 5000;
/// The most references that get a name.
const MAX_NAMES: usize = 200;
/// The most branches of an `anyOf` or `oneOf`.
const MAX_BRANCHES: usize = 64;
/// The most branches if each one repeats the known fields, because it is intersected with them.
const MAX_REPEATED_BRANCHES: usize = 4;
/// The most members of an `allOf`.
const MAX_MEMBERS: usize = 64;
/// The most references that are inlined within each other.
const MAX_OPEN_REFERENCES: usize = 8;

/// Converts a document to shapes, not yet simplified.
pub(super) fn convert(document: &Value) -> SchemaTypes {
    let mut walk = SchemaConverter {
        document,
        nodes: 0,
        limit: MAX_ROOT_SCHEMAS,
        named: Vec::new(),
        places: HashMap::new(),
        pending: Vec::new(),
        opened: Vec::new(),
        elided: BTreeSet::new(),
    };
    let root = walk.convert_schema(document, 0);
    walk.convert_pending();
    SchemaTypes {
        root,
        named: walk.named,
        elided: walk.elided,
    }
}

pub(super) struct SchemaConverter<'a> {
    document: &'a Value,
    nodes: usize,
    /// The number of nodes at which the current part ends.
    limit: usize,
    named: Vec<NamedShape>,
    places: HashMap<&'a str, usize>,
    /// References that still have no shape. The queue avoids a deep recursion along a chain of references.
    pending: Vec<(usize, &'a Value)>,
    opened: Vec<&'a str>,
    elided: BTreeSet<&'static str>,
}

impl<'a> SchemaConverter<'a> {
    /// Records that a part was left out.
    pub(super) fn elide(&mut self, what: &'static str) -> SchemaShape {
        self.elided.insert(what);
        SchemaShape::Unknown
    }

    pub(super) fn convert_schema(&mut self, schema: &'a Value, depth: usize) -> SchemaShape {
        self.nodes += 1;
        if self.nodes > self.limit {
            return self.elide("parts of a very large schema");
        }
        if depth > MAX_DEPTH {
            return self.elide("parts nested very deep");
        }
        match schema {
            Value::Bool(true) => SchemaShape::Unknown,
            Value::Bool(false) => SchemaShape::Never,
            Value::Object(schema) => self.convert_combined(schema, depth),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => self.elide("malformed parts"),
        }
    }

    /// Converts several schemas, each with a share of the remaining nodes.
    pub(super) fn convert_schemas(&mut self, schemas: &[&'a Value], depth: usize) -> Vec<SchemaShape> {
        let limit = self.limit;
        let mut shapes = Vec::with_capacity(schemas.len());
        for (place, schema) in schemas.iter().enumerate() {
            let share = limit.saturating_sub(self.nodes) / (schemas.len() - place);
            self.limit = (self.nodes + share.max(1)).min(limit);
            shapes.push(self.convert_schema(schema, depth));
        }
        self.limit = limit;
        shapes
    }

    fn convert_combined(&mut self, schema: &'a Map<String, Value>, depth: usize) -> SchemaShape {
        let mut shape = self.convert_keywords(schema, depth);
        let several = keyword_list(schema, "allOf").len()
            + usize::from(schema.contains_key("anyOf") || schema.contains_key("oneOf"));
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = schema.get(key) {
                let alone = shape == SchemaShape::Unknown && several == 0;
                let target = self.convert_reference(reference, alone, depth);
                shape = self.intersect_shapes(shape, target);
            }
        }
        let members = keyword_list(schema, "allOf");
        if members.len() > MAX_MEMBERS {
            self.elide("members of a very long `allOf`");
        }
        for member in members.iter().take(MAX_MEMBERS) {
            let alone = shape == SchemaShape::Unknown && several == 1;
            let target = if alone {
                self.convert_schema(member, depth + 1)
            } else {
                self.convert_inlined(member, depth + 1)
            };
            shape = self.intersect_shapes(shape, target);
        }
        for key in ["anyOf", "oneOf"] {
            let target = self.convert_branches(keyword_list(schema, key), &shape, depth);
            shape = self.intersect_shapes(shape, target);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) && shape != SchemaShape::Unknown {
            shape = union([shape, SchemaShape::Null]);
        }
        shape
    }

    fn convert_branches(&mut self, branches: &'a [Value], base: &SchemaShape, depth: usize) -> SchemaShape {
        let alone = *base == SchemaShape::Unknown;
        let repeats = matches!(base, SchemaShape::Object(object) if !object.fields.is_empty());
        if branches.is_empty() {
            return SchemaShape::Unknown;
        }
        if branches.len() > MAX_BRANCHES || (repeats && branches.len() > MAX_REPEATED_BRANCHES) {
            return self.elide("alternatives, of which there are many");
        }
        if alone {
            let branches: Vec<_> = branches.iter().collect();
            return union(self.convert_schemas(&branches, depth + 1));
        }
        let shapes: Vec<_> = branches
            .iter()
            .map(|branch| self.convert_inlined(branch, depth + 1))
            .collect();
        union(shapes)
    }

    /// Like [`SchemaConverter::convert_schema`], but inlines a referenced shape instead of naming it.
    fn convert_inlined(&mut self, schema: &'a Value, depth: usize) -> SchemaShape {
        let reference = schema
            .as_object()
            .filter(|schema| schema.len() == 1)
            .and_then(|schema| schema.get("$ref"));
        match reference {
            Some(reference) => self.convert_reference(reference, false, depth),
            None => self.convert_schema(schema, depth),
        }
    }

    fn convert_reference(&mut self, reference: &'a Value, alone: bool, depth: usize) -> SchemaShape {
        let Some(reference) = reference.as_str() else {
            return self.elide("malformed parts");
        };
        let target = match references::resolve_reference(self.document, reference) {
            ReferenceTarget::Here(target) => target,
            ReferenceTarget::Elsewhere => return self.elide("references to other documents, which are never fetched"),
            ReferenceTarget::Nowhere => return self.elide("references that lead nowhere"),
        };
        if alone {
            return self.named_reference(reference, target);
        }
        if self.opened.len() >= MAX_OPEN_REFERENCES || self.opened.contains(&reference) {
            return self.elide("combinations of a schema with itself");
        }
        self.opened.push(reference);
        let shape = self.convert_inlined(target, depth + 1);
        self.opened.pop();
        shape
    }

    fn named_reference(&mut self, reference: &'a str, target: &'a Value) -> SchemaShape {
        if let Some(place) = self.places.get(reference) {
            return SchemaShape::Named(*place);
        }
        let place = self.named.len();
        if place >= MAX_NAMES {
            return self.elide("parts of a very large schema");
        }
        let name = reference.rsplit(['/', '#']).next().unwrap_or_default().to_owned();
        self.named.push(NamedShape {
            name,
            shape: SchemaShape::Unknown,
        });
        self.places.insert(reference, place);
        self.pending.push((place, target));
        SchemaShape::Named(place)
    }

    fn convert_pending(&mut self) {
        while let Some((place, target)) = self.pending.pop() {
            let share = MAX_SCHEMAS.saturating_sub(self.nodes) / (self.pending.len() + 1);
            self.limit = self.nodes + share;
            let made = self.convert_schema(target, 0);
            if let Some(named) = self.named.get_mut(place) {
                named.shape = made;
            }
        }
    }

    /// The intersection of both shapes, or the first one if it cannot be expressed.
    pub(super) fn intersect_shapes(&mut self, one: SchemaShape, other: SchemaShape) -> SchemaShape {
        intersect(one.clone(), other).unwrap_or_else(|| {
            self.elided.insert("combinations of schemas");
            one
        })
    }
}

/// The list under a keyword; empty if the value is not a list.
pub(super) fn keyword_list<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
