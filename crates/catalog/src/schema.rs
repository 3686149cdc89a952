//! JSON Schema as shapes: what a TypeScript or Python type can express about a value, and nothing else.
//!
//! A schema comes from an untrusted server. It may be malformed anywhere, recursive, or a megabyte long: every part that cannot
//! be understood or is too large becomes [`SchemaShape::Unknown`], and [`SchemaTypes::elided`] lists it. Nothing is ever fetched.

mod annotations;
mod combine;
mod convert;
mod keywords;
mod references;
mod simplify;

use std::collections::BTreeSet;

use serde_json::Value;

pub(crate) use annotations::SchemaAnnotations;
pub(crate) use combine::union;

/// The shape of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SchemaShape {
    /// Any value: the schema does not restrict it, or the restriction is not understood.
    Unknown,
    /// No value at all.
    Never,
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Literal(LiteralShape),
    List(Box<SchemaShape>),
    Tuple(TupleShape),
    Object(ObjectShape),
    /// Two or more shapes, none of them a union.
    Union(Vec<SchemaShape>),
    /// The index of a shape in [`SchemaTypes::named`].
    Named(usize),
}

/// A value that a type can express literally.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LiteralShape {
    Boolean(bool),
    Number(serde_json::Number),
    String(String),
}

/// A list whose items have their own shapes by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TupleShape {
    pub(crate) items: Vec<SchemaShape>,
    /// The number of required items.
    pub(crate) needed: usize,
    /// The shape of further items; `None` if there may be none.
    pub(crate) rest: Option<Box<SchemaShape>>,
}

/// An object: its known keys, and its additional keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectShape {
    /// Required fields first, each group by name.
    pub(crate) fields: Vec<ObjectField>,
    pub(crate) additional: AdditionalKeys,
}

/// The additional keys of an object, besides the known ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AdditionalKeys {
    /// The schema does not specify them. A type then has only the known keys, so that a misspelt key is detected.
    Unspecified,
    /// No additional keys are allowed.
    Closed,
    /// Any key, with a value of this shape.
    Open(Box<SchemaShape>),
}

/// A known key of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectField {
    pub(crate) name: String,
    pub(crate) shape: SchemaShape,
    pub(crate) required: bool,
    pub(crate) annotations: SchemaAnnotations,
}

/// A shape with a name, because it contains itself or is used in several positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedShape {
    /// The name in the schema.
    pub(crate) name: String,
    pub(crate) shape: SchemaShape,
}

/// The shapes of one schema, simplified and bounded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SchemaTypes {
    pub(crate) root: SchemaShape,
    pub(crate) named: Vec<NamedShape>,
    /// Descriptions of the parts that were left out.
    pub(crate) elided: BTreeSet<&'static str>,
}

impl SchemaTypes {
    /// Converts a schema to shapes.
    pub(crate) fn from_schema(schema: &Value) -> SchemaTypes {
        simplify::simplify_types(convert::convert(schema))
    }

    /// The shape itself, if this one is a name.
    pub(crate) fn resolve<'a>(&'a self, shape: &'a SchemaShape) -> &'a SchemaShape {
        if let SchemaShape::Named(place) = shape {
            return self
                .named
                .get(*place)
                .map_or(&SchemaShape::Unknown, |named| &named.shape);
        }
        shape
    }

    /// The objects that a tool's arguments may be: one, or the branches of a union. Arguments are always an object, so a schema
    /// without objects allows any.
    pub(crate) fn argument_objects(&self) -> Vec<ObjectShape> {
        let root = self.resolve(&self.root);
        let branches: Vec<ObjectShape> = if let SchemaShape::Union(shapes) = root {
            shapes.iter().filter_map(|shape| self.object(shape)).collect()
        } else {
            self.object(root).into_iter().collect()
        };
        if branches.is_empty() {
            return vec![ObjectShape::any()];
        }
        branches
    }

    fn object(&self, shape: &SchemaShape) -> Option<ObjectShape> {
        if let SchemaShape::Object(object) = self.resolve(shape) {
            Some(object.clone())
        } else {
            None
        }
    }
}

impl ObjectShape {
    /// An object without known keys.
    pub(crate) fn any() -> ObjectShape {
        let additional = AdditionalKeys::Open(Box::new(SchemaShape::Unknown));
        ObjectShape {
            fields: Vec::new(),
            additional,
        }
    }

    /// Sorts the fields into the order in which they are shown.
    fn sort_fields(&mut self) {
        self.fields
            .sort_by(|one, other| (!one.required, &one.name).cmp(&(!other.required, &other.name)));
    }
}

impl SchemaShape {
    /// The shapes directly inside this one.
    pub(crate) fn children(&self) -> Vec<&SchemaShape> {
        match self {
            SchemaShape::List(item) => vec![item],
            SchemaShape::Tuple(tuple) => tuple.items.iter().chain(tuple.rest.as_deref()).collect(),
            SchemaShape::Object(object) => {
                let rest = match &object.additional {
                    AdditionalKeys::Open(shape) => Some(&**shape),
                    AdditionalKeys::Unspecified | AdditionalKeys::Closed => None,
                };
                object.fields.iter().map(|field| &field.shape).chain(rest).collect()
            }
            SchemaShape::Union(shapes) => shapes.iter().collect(),
            SchemaShape::Unknown
            | SchemaShape::Never
            | SchemaShape::Null
            | SchemaShape::Boolean
            | SchemaShape::Integer
            | SchemaShape::Number
            | SchemaShape::String
            | SchemaShape::Literal(_)
            | SchemaShape::Named(_) => Vec::new(),
        }
    }

    /// The shapes directly inside this one, mutably.
    fn children_mut(&mut self) -> Vec<&mut SchemaShape> {
        match self {
            SchemaShape::List(item) => vec![item],
            SchemaShape::Tuple(tuple) => tuple.items.iter_mut().chain(tuple.rest.as_deref_mut()).collect(),
            SchemaShape::Object(object) => {
                let rest = match &mut object.additional {
                    AdditionalKeys::Open(shape) => Some(&mut **shape),
                    AdditionalKeys::Unspecified | AdditionalKeys::Closed => None,
                };
                let fields = object.fields.iter_mut().map(|field| &mut field.shape);
                fields.chain(rest).collect()
            }
            SchemaShape::Union(shapes) => shapes.iter_mut().collect(),
            SchemaShape::Unknown
            | SchemaShape::Never
            | SchemaShape::Null
            | SchemaShape::Boolean
            | SchemaShape::Integer
            | SchemaShape::Number
            | SchemaShape::String
            | SchemaShape::Literal(_)
            | SchemaShape::Named(_) => Vec::new(),
        }
    }

    /// Whether any part of it is unknown, without following names.
    pub(crate) fn has_unknown(&self) -> bool {
        matches!(self, SchemaShape::Unknown) || self.children().into_iter().any(SchemaShape::has_unknown)
    }
}

#[cfg(test)]
mod tests;
