//! Combinations of shapes: unions and intersections.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "only a few pairs of shapes have a meaning together"
)]

use super::{AdditionalKeys, LiteralShape, ObjectShape, SchemaShape, TupleShape};

/// The most members of a union that results from an intersection.
const MAX_UNION_PRODUCT: usize = 32;

/// The union of these shapes.
pub(crate) fn union(shapes: impl IntoIterator<Item = SchemaShape>) -> SchemaShape {
    let mut members: Vec<SchemaShape> = Vec::new();
    for shape in shapes {
        let parts = match shape {
            SchemaShape::Unknown => return SchemaShape::Unknown,
            SchemaShape::Never => continue,
            SchemaShape::Union(parts) => parts,
            other => vec![other],
        };
        for part in parts {
            if !members.contains(&part) {
                members.push(part);
            }
        }
    }
    remove_included(&mut members);
    match members.len() {
        0 => SchemaShape::Never,
        1 => members.swap_remove(0),
        _ => SchemaShape::Union(members),
    }
}

/// Removes the members that another one includes.
fn remove_included(members: &mut Vec<SchemaShape>) {
    let has = |shape: &SchemaShape| members.contains(shape);
    let (string, number, boolean) = (
        has(&SchemaShape::String),
        has(&SchemaShape::Number),
        has(&SchemaShape::Boolean),
    );
    let integer = has(&SchemaShape::Integer);
    members.retain(|member| match member {
        SchemaShape::Integer => !number,
        SchemaShape::Literal(LiteralShape::String(_)) => !string,
        SchemaShape::Literal(LiteralShape::Number(value)) => !number && (!integer || value.is_f64()),
        SchemaShape::Literal(LiteralShape::Boolean(_)) => !boolean,
        _ => true,
    });
}

/// The intersection of two shapes; `None` if it cannot be expressed.
pub(super) fn intersect(one: SchemaShape, other: SchemaShape) -> Option<SchemaShape> {
    match (one, other) {
        (SchemaShape::Unknown, shape) | (shape, SchemaShape::Unknown) => Some(shape),
        (SchemaShape::Never, _) | (_, SchemaShape::Never) => Some(SchemaShape::Never),
        (SchemaShape::Union(one), SchemaShape::Union(other)) if one.len() * other.len() > MAX_UNION_PRODUCT => {
            // An intersection of closed sets of literals needs no product.
            let kept: Vec<_> = one.into_iter().filter(|shape| other.contains(shape)).collect();
            (!kept.is_empty()).then(|| union(kept))
        }
        (SchemaShape::Union(members), shape) | (shape, SchemaShape::Union(members)) => {
            let met: Option<Vec<_>> = members
                .into_iter()
                .map(|member| intersect(member, shape.clone()))
                .collect();
            met.map(union)
        }
        (one, other) if one == other => Some(one),
        (SchemaShape::Named(_), _) | (_, SchemaShape::Named(_)) | (SchemaShape::Tuple(_), SchemaShape::Tuple(_)) => {
            None
        }
        (SchemaShape::Number, SchemaShape::Integer) | (SchemaShape::Integer, SchemaShape::Number) => {
            Some(SchemaShape::Integer)
        }
        (SchemaShape::Literal(literal), shape) | (shape, SchemaShape::Literal(literal)) => {
            let fits = match (&literal, &shape) {
                (LiteralShape::String(_), SchemaShape::String)
                | (LiteralShape::Number(_), SchemaShape::Number)
                | (LiteralShape::Boolean(_), SchemaShape::Boolean) => true,
                (LiteralShape::Number(value), SchemaShape::Integer) => !value.is_f64() || is_whole_number(value),
                _ => false,
            };
            Some(if fits {
                SchemaShape::Literal(literal)
            } else {
                SchemaShape::Never
            })
        }
        (SchemaShape::List(one), SchemaShape::List(other)) => {
            intersect(*one, *other).map(|item| SchemaShape::List(Box::new(item)))
        }
        (SchemaShape::Tuple(tuple), SchemaShape::List(item)) | (SchemaShape::List(item), SchemaShape::Tuple(tuple)) => {
            narrow_tuple(tuple, &item).map(SchemaShape::Tuple)
        }
        (SchemaShape::Object(one), SchemaShape::Object(other)) => merge_objects(one, other).map(SchemaShape::Object),
        _ => Some(SchemaShape::Never),
    }
}

fn is_whole_number(value: &serde_json::Number) -> bool {
    value.as_f64().is_some_and(|value| value.fract() == 0.0)
}

fn narrow_tuple(tuple: TupleShape, item: &SchemaShape) -> Option<TupleShape> {
    let items: Option<Vec<_>> = tuple
        .items
        .into_iter()
        .map(|one| intersect(one, item.clone()))
        .collect();
    let rest = match tuple.rest {
        Some(rest) => Some(Box::new(intersect(*rest, item.clone())?)),
        None => None,
    };
    let needed = tuple.needed;
    Some(TupleShape {
        items: items?,
        needed,
        rest,
    })
}

fn merge_objects(one: ObjectShape, other: ObjectShape) -> Option<ObjectShape> {
    let rest = match (one.additional, other.additional) {
        (AdditionalKeys::Closed, _) | (_, AdditionalKeys::Closed) => AdditionalKeys::Closed,
        (AdditionalKeys::Open(one), AdditionalKeys::Open(other)) => {
            AdditionalKeys::Open(Box::new(intersect(*one, *other)?))
        }
        (AdditionalKeys::Open(shape), AdditionalKeys::Unspecified)
        | (AdditionalKeys::Unspecified, AdditionalKeys::Open(shape)) => AdditionalKeys::Open(shape),
        (AdditionalKeys::Unspecified, AdditionalKeys::Unspecified) => AdditionalKeys::Unspecified,
    };
    let mut fields = one.fields;
    let mut places: std::collections::HashMap<String, usize> = fields
        .iter()
        .enumerate()
        .map(|(place, field)| (field.name.clone(), place))
        .collect();
    for field in other.fields {
        if let Some(known) = places.get(&field.name).and_then(|place| fields.get_mut(*place)) {
            let shape = std::mem::replace(&mut known.shape, SchemaShape::Never);
            known.shape = intersect(shape, field.shape)?;
            known.required |= field.required;
            known.annotations = std::mem::take(&mut known.annotations).completed_by(field.annotations);
        } else {
            places.insert(field.name.clone(), fields.len());
            fields.push(field);
        }
    }
    let mut object = ObjectShape {
        fields,
        additional: rest,
    };
    object.sort_fields();
    Some(object)
}
