//! Converts a schema to shapes: references, combinations and limits. The keywords of a single schema are in `plain`.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::combine::{both, union};
use super::refs::{self, Target};
use super::{Named, Shape, Types};

/// The deepest nesting of shapes; deeper parts are unknown.
const DEPTH: usize = 14;
/// The most schemas of a document that are read for its root, and in total.
const ROOT: usize = 3000;
const ALL: usize = 5000;
/// The most references that get a name.
const NAMES: usize = 200;
/// The most branches of an `anyOf` or `oneOf`.
const BRANCHES: usize = 64;
/// The most branches if each one repeats the known fields, because it is intersected with them.
const REPEATED: usize = 4;
/// The most members of an `allOf`.
const MEMBERS: usize = 64;
/// The most references that are inlined within each other.
const OPENED: usize = 8;

/// Converts a document to shapes, not yet simplified.
pub(super) fn convert(document: &Value) -> Types {
    let mut walk = Walk {
        document,
        nodes: 0,
        limit: ROOT,
        named: Vec::new(),
        places: HashMap::new(),
        pending: Vec::new(),
        opened: Vec::new(),
        elided: BTreeSet::new(),
    };
    let root = walk.shape(document, 0);
    walk.name_all();
    Types {
        root,
        named: walk.named,
        elided: walk.elided,
    }
}

pub(super) struct Walk<'a> {
    document: &'a Value,
    nodes: usize,
    /// The number of nodes at which the current part ends.
    limit: usize,
    named: Vec<Named>,
    places: HashMap<&'a str, usize>,
    /// References that still have no shape. The queue avoids a deep recursion along a chain of references.
    pending: Vec<(usize, &'a Value)>,
    opened: Vec<&'a str>,
    elided: BTreeSet<&'static str>,
}

impl<'a> Walk<'a> {
    /// Records that a part was left out.
    pub(super) fn elide(&mut self, what: &'static str) -> Shape {
        self.elided.insert(what);
        Shape::Unknown
    }

    pub(super) fn shape(&mut self, schema: &'a Value, depth: usize) -> Shape {
        self.nodes += 1;
        if self.nodes > self.limit {
            return self.elide("parts of a very large schema");
        }
        if depth > DEPTH {
            return self.elide("parts nested very deep");
        }
        match schema {
            Value::Bool(true) => Shape::Unknown,
            Value::Bool(false) => Shape::Never,
            Value::Object(schema) => self.whole(schema, depth),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => self.elide("malformed parts"),
        }
    }

    /// Converts several schemas, each with a share of the remaining nodes.
    pub(super) fn shapes(&mut self, schemas: &[&'a Value], depth: usize) -> Vec<Shape> {
        let limit = self.limit;
        let mut shapes = Vec::with_capacity(schemas.len());
        for (place, schema) in schemas.iter().enumerate() {
            let share = limit.saturating_sub(self.nodes) / (schemas.len() - place);
            self.limit = (self.nodes + share.max(1)).min(limit);
            shapes.push(self.shape(schema, depth));
        }
        self.limit = limit;
        shapes
    }

    fn whole(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        let mut shape = self.plain(schema, depth);
        let several =
            list(schema, "allOf").len() + usize::from(schema.contains_key("anyOf") || schema.contains_key("oneOf"));
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = schema.get(key) {
                let alone = shape == Shape::Unknown && several == 0;
                let target = self.reference(reference, alone, depth);
                shape = self.meet(shape, target);
            }
        }
        let members = list(schema, "allOf");
        if members.len() > MEMBERS {
            self.elide("members of a very long `allOf`");
        }
        for member in members.iter().take(MEMBERS) {
            let alone = shape == Shape::Unknown && several == 1;
            let target = if alone {
                self.shape(member, depth + 1)
            } else {
                self.opened(member, depth + 1)
            };
            shape = self.meet(shape, target);
        }
        for key in ["anyOf", "oneOf"] {
            let target = self.branches(list(schema, key), &shape, depth);
            shape = self.meet(shape, target);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) && shape != Shape::Unknown {
            shape = union([shape, Shape::Null]);
        }
        shape
    }

    fn branches(&mut self, branches: &'a [Value], base: &Shape, depth: usize) -> Shape {
        let alone = *base == Shape::Unknown;
        let repeats = matches!(base, Shape::Object(object) if !object.fields.is_empty());
        if branches.is_empty() {
            return Shape::Unknown;
        }
        if branches.len() > BRANCHES || (repeats && branches.len() > REPEATED) {
            return self.elide("alternatives, of which there are many");
        }
        if alone {
            let branches: Vec<_> = branches.iter().collect();
            return union(self.shapes(&branches, depth + 1));
        }
        let shapes: Vec<_> = branches.iter().map(|branch| self.opened(branch, depth + 1)).collect();
        union(shapes)
    }

    /// Like [`Walk::shape`], but inlines a referenced shape instead of naming it.
    fn opened(&mut self, schema: &'a Value, depth: usize) -> Shape {
        let reference = schema
            .as_object()
            .filter(|schema| schema.len() == 1)
            .and_then(|schema| schema.get("$ref"));
        match reference {
            Some(reference) => self.reference(reference, false, depth),
            None => self.shape(schema, depth),
        }
    }

    fn reference(&mut self, reference: &'a Value, alone: bool, depth: usize) -> Shape {
        let Some(reference) = reference.as_str() else {
            return self.elide("malformed parts");
        };
        let target = match refs::follow(self.document, reference) {
            Target::Here(target) => target,
            Target::Elsewhere => return self.elide("references to other documents, which are never fetched"),
            Target::Nowhere => return self.elide("references that lead nowhere"),
        };
        if alone {
            return self.named(reference, target);
        }
        if self.opened.len() >= OPENED || self.opened.contains(&reference) {
            return self.elide("combinations of a schema with itself");
        }
        self.opened.push(reference);
        let shape = self.opened(target, depth + 1);
        self.opened.pop();
        shape
    }

    fn named(&mut self, reference: &'a str, target: &'a Value) -> Shape {
        if let Some(place) = self.places.get(reference) {
            return Shape::Named(*place);
        }
        let place = self.named.len();
        if place >= NAMES {
            return self.elide("parts of a very large schema");
        }
        let name = reference.rsplit(['/', '#']).next().unwrap_or_default().to_owned();
        self.named.push(Named {
            name,
            shape: Shape::Unknown,
        });
        self.places.insert(reference, place);
        self.pending.push((place, target));
        Shape::Named(place)
    }

    fn name_all(&mut self) {
        while let Some((place, target)) = self.pending.pop() {
            let share = ALL.saturating_sub(self.nodes) / (self.pending.len() + 1);
            self.limit = self.nodes + share;
            let made = self.shape(target, 0);
            if let Some(named) = self.named.get_mut(place) {
                named.shape = made;
            }
        }
    }

    /// The intersection of both shapes, or the first one if it cannot be expressed.
    pub(super) fn meet(&mut self, one: Shape, other: Shape) -> Shape {
        both(one.clone(), other).unwrap_or_else(|| {
            self.elided.insert("combinations of schemas");
            one
        })
    }
}

/// The list under a keyword; empty if the value is not a list.
pub(super) fn list<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
