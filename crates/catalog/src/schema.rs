//! JSON Schema as shapes: what a TypeScript or Python type can express about a value, and nothing else.
//!
//! A schema comes from an untrusted server. It may be malformed anywhere, recursive, or a megabyte long: every part that cannot
//! be understood or is too large becomes [`Shape::Unknown`], and [`Types::elided`] lists it. Nothing is ever fetched.

mod combine;
mod convert;
mod plain;
mod refs;
mod settle;
mod words;

use std::collections::BTreeSet;

use serde_json::Value;

pub(crate) use combine::union;
pub(crate) use words::Words;

/// The shape of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Any value: the schema does not restrict it, or the restriction is not understood.
    Unknown,
    /// No value at all.
    Never,
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Literal(Literal),
    List(Box<Shape>),
    Tuple(Tuple),
    Object(Object),
    /// Two or more shapes, none of them a union.
    Union(Vec<Shape>),
    /// The index of a shape in [`Types::named`].
    Named(usize),
}

/// A value that a type can express literally.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Boolean(bool),
    Number(serde_json::Number),
    String(String),
}

/// A list whose items have their own shapes by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tuple {
    pub(crate) items: Vec<Shape>,
    /// The number of required items.
    pub(crate) needed: usize,
    /// The shape of further items; `None` if there may be none.
    pub(crate) rest: Option<Box<Shape>>,
}

/// An object: its known keys, and its additional keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    /// Required fields first, each group by name.
    pub(crate) fields: Vec<Field>,
    pub(crate) rest: Rest,
}

/// The additional keys of an object, besides the known ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rest {
    /// The schema does not specify them. A type then has only the known keys, so that a misspelt key is detected.
    Unsaid,
    /// No additional keys are allowed.
    Closed,
    /// Any key, with a value of this shape.
    Open(Box<Shape>),
}

/// A known key of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    pub(crate) words: Words,
}

/// A shape with a name, because it contains itself or is used in several positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    /// The name in the schema.
    pub(crate) name: String,
    pub(crate) shape: Shape,
}

/// The shapes of one schema, simplified and bounded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Types {
    pub(crate) root: Shape,
    pub(crate) named: Vec<Named>,
    /// Descriptions of the parts that were left out.
    pub(crate) elided: BTreeSet<&'static str>,
}

impl Types {
    /// Converts a schema to shapes.
    pub(crate) fn of(schema: &Value) -> Types {
        settle::settle(convert::convert(schema))
    }

    /// The shape itself, if this one is a name.
    pub(crate) fn look<'a>(&'a self, shape: &'a Shape) -> &'a Shape {
        if let Shape::Named(place) = shape {
            return self.named.get(*place).map_or(&Shape::Unknown, |named| &named.shape);
        }
        shape
    }

    /// The objects that a tool's arguments may be: one, or the branches of a union. Arguments are always an object, so a schema
    /// without objects allows any.
    pub(crate) fn arguments(&self) -> Vec<Object> {
        let root = self.look(&self.root);
        let branches: Vec<Object> = if let Shape::Union(shapes) = root {
            shapes.iter().filter_map(|shape| self.object(shape)).collect()
        } else {
            self.object(root).into_iter().collect()
        };
        if branches.is_empty() {
            return vec![Object::any()];
        }
        branches
    }

    fn object(&self, shape: &Shape) -> Option<Object> {
        if let Shape::Object(object) = self.look(shape) {
            Some(object.clone())
        } else {
            None
        }
    }
}

impl Object {
    /// An object without known keys.
    pub(crate) fn any() -> Object {
        let rest = Rest::Open(Box::new(Shape::Unknown));
        Object {
            fields: Vec::new(),
            rest,
        }
    }

    /// Sorts the fields into the order in which they are shown.
    fn sort(&mut self) {
        self.fields
            .sort_by(|one, other| (!one.required, &one.name).cmp(&(!other.required, &other.name)));
    }
}

impl Shape {
    /// The shapes directly inside this one.
    pub(crate) fn inner(&self) -> Vec<&Shape> {
        match self {
            Shape::List(item) => vec![item],
            Shape::Tuple(tuple) => tuple.items.iter().chain(tuple.rest.as_deref()).collect(),
            Shape::Object(object) => {
                let rest = match &object.rest {
                    Rest::Open(shape) => Some(&**shape),
                    Rest::Unsaid | Rest::Closed => None,
                };
                object.fields.iter().map(|field| &field.shape).chain(rest).collect()
            }
            Shape::Union(shapes) => shapes.iter().collect(),
            Shape::Unknown
            | Shape::Never
            | Shape::Null
            | Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::String
            | Shape::Literal(_)
            | Shape::Named(_) => Vec::new(),
        }
    }

    /// The shapes directly inside this one, mutably.
    fn inner_mut(&mut self) -> Vec<&mut Shape> {
        match self {
            Shape::List(item) => vec![item],
            Shape::Tuple(tuple) => tuple.items.iter_mut().chain(tuple.rest.as_deref_mut()).collect(),
            Shape::Object(object) => {
                let rest = match &mut object.rest {
                    Rest::Open(shape) => Some(&mut **shape),
                    Rest::Unsaid | Rest::Closed => None,
                };
                let fields = object.fields.iter_mut().map(|field| &mut field.shape);
                fields.chain(rest).collect()
            }
            Shape::Union(shapes) => shapes.iter_mut().collect(),
            Shape::Unknown
            | Shape::Never
            | Shape::Null
            | Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::String
            | Shape::Literal(_)
            | Shape::Named(_) => Vec::new(),
        }
    }

    /// Whether any part of it is unknown, without following names.
    pub(crate) fn vague(&self) -> bool {
        matches!(self, Shape::Unknown) || self.inner().into_iter().any(Shape::vague)
    }
}

#[cfg(test)]
mod tests;
