//! JSON Schema as shapes: what a type of TypeScript or Python can say of a value, and nothing else.
//!
//! A schema is a stranger's text. It may be malformed anywhere, recursive, or a megabyte long: what cannot be understood or is
//! too much becomes [`Shape::Unknown`], and [`Types::elided`] says so. Nothing is ever fetched.

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

/// What a value may be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Anything: the schema says nothing, or nothing that we understand.
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
    /// One of [`Types::named`].
    Named(usize),
}

/// One value that a type can spell out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Boolean(bool),
    Number(serde_json::Number),
    String(String),
}

/// A list whose places have shapes of their own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tuple {
    pub(crate) items: Vec<Shape>,
    /// How many of the items must be there.
    pub(crate) needed: usize,
    /// What may follow.
    pub(crate) rest: Option<Box<Shape>>,
}

/// An object: known keys, and what else it may hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    /// Required ones first, each group by name.
    pub(crate) fields: Vec<Field>,
    pub(crate) rest: Rest,
}

/// What keys besides the known ones an object may hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rest {
    /// The schema does not say. A type then names the known keys only, so that a misspelt one is found.
    Unsaid,
    /// None.
    Closed,
    /// Any key, with such a value.
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

/// A shape with a name, because it contains itself or is used in several places.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    /// What the schema calls it.
    pub(crate) name: String,
    pub(crate) shape: Shape,
}

/// A schema's shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Types {
    pub(crate) root: Shape,
    pub(crate) named: Vec<Named>,
    /// What was left out, in words.
    pub(crate) elided: BTreeSet<&'static str>,
}

impl Types {
    /// The shapes of a schema.
    pub(crate) fn of(schema: &Value) -> Types {
        settle::settle(convert::convert(schema))
    }

    /// The shape itself, where a name stands for it.
    pub(crate) fn look<'a>(&'a self, shape: &'a Shape) -> &'a Shape {
        if let Shape::Named(place) = shape {
            return self.named.get(*place).map_or(&Shape::Unknown, |named| &named.shape);
        }
        shape
    }

    /// The objects that a tool's arguments may be: one, or the branches of a union. Arguments are always an object, so a schema
    /// that says nothing of it means any.
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
    /// An object of which nothing is known.
    pub(crate) fn any() -> Object {
        let rest = Rest::Open(Box::new(Shape::Unknown));
        Object {
            fields: Vec::new(),
            rest,
        }
    }

    /// Sorts the fields as they are shown.
    fn sort(&mut self) {
        self.fields
            .sort_by(|one, other| (!one.required, &one.name).cmp(&(!other.required, &other.name)));
    }
}

impl Shape {
    /// The shapes directly inside.
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

    /// The same shapes, to be changed.
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

    /// Whether anything in it, without following names, is unknown.
    pub(crate) fn vague(&self) -> bool {
        matches!(self, Shape::Unknown) || self.inner().into_iter().any(Shape::vague)
    }
}

#[cfg(test)]
mod tests;
