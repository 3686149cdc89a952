//! Combinations of shapes: unions and intersections.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "only a few pairs of shapes have a meaning together"
)]

use super::{Literal, Object, Rest, Shape, Tuple};

/// The most members of a union that results from an intersection.
const PRODUCT: usize = 32;

/// The union of these shapes.
pub(crate) fn union(shapes: impl IntoIterator<Item = Shape>) -> Shape {
    let mut members: Vec<Shape> = Vec::new();
    for shape in shapes {
        let parts = match shape {
            Shape::Unknown => return Shape::Unknown,
            Shape::Never => continue,
            Shape::Union(parts) => parts,
            other => vec![other],
        };
        for part in parts {
            if !members.contains(&part) {
                members.push(part);
            }
        }
    }
    swallow(&mut members);
    match members.len() {
        0 => Shape::Never,
        1 => members.swap_remove(0),
        _ => Shape::Union(members),
    }
}

/// Removes the members that another one includes.
fn swallow(members: &mut Vec<Shape>) {
    let has = |shape: &Shape| members.contains(shape);
    let (string, number, boolean) = (has(&Shape::String), has(&Shape::Number), has(&Shape::Boolean));
    let integer = has(&Shape::Integer);
    members.retain(|member| match member {
        Shape::Integer => !number,
        Shape::Literal(Literal::String(_)) => !string,
        Shape::Literal(Literal::Number(value)) => !number && (!integer || value.is_f64()),
        Shape::Literal(Literal::Boolean(_)) => !boolean,
        _ => true,
    });
}

/// The intersection of two shapes; `None` if it cannot be expressed.
pub(super) fn both(one: Shape, other: Shape) -> Option<Shape> {
    match (one, other) {
        (Shape::Unknown, shape) | (shape, Shape::Unknown) => Some(shape),
        (Shape::Never, _) | (_, Shape::Never) => Some(Shape::Never),
        (Shape::Union(one), Shape::Union(other)) if one.len() * other.len() > PRODUCT => {
            // An intersection of closed sets of literals needs no product.
            let kept: Vec<_> = one.into_iter().filter(|shape| other.contains(shape)).collect();
            (!kept.is_empty()).then(|| union(kept))
        }
        (Shape::Union(members), shape) | (shape, Shape::Union(members)) => {
            let met: Option<Vec<_>> = members.into_iter().map(|member| both(member, shape.clone())).collect();
            met.map(union)
        }
        (one, other) if one == other => Some(one),
        (Shape::Named(_), _) | (_, Shape::Named(_)) | (Shape::Tuple(_), Shape::Tuple(_)) => None,
        (Shape::Number, Shape::Integer) | (Shape::Integer, Shape::Number) => Some(Shape::Integer),
        (Shape::Literal(literal), shape) | (shape, Shape::Literal(literal)) => {
            let fits = match (&literal, &shape) {
                (Literal::String(_), Shape::String)
                | (Literal::Number(_), Shape::Number)
                | (Literal::Boolean(_), Shape::Boolean) => true,
                (Literal::Number(value), Shape::Integer) => !value.is_f64() || whole(value),
                _ => false,
            };
            Some(if fits { Shape::Literal(literal) } else { Shape::Never })
        }
        (Shape::List(one), Shape::List(other)) => both(*one, *other).map(|item| Shape::List(Box::new(item))),
        (Shape::Tuple(tuple), Shape::List(item)) | (Shape::List(item), Shape::Tuple(tuple)) => {
            tuple_of(tuple, &item).map(Shape::Tuple)
        }
        (Shape::Object(one), Shape::Object(other)) => merge(one, other).map(Shape::Object),
        _ => Some(Shape::Never),
    }
}

fn whole(value: &serde_json::Number) -> bool {
    value.as_f64().is_some_and(|value| value.fract() == 0.0)
}

fn tuple_of(tuple: Tuple, item: &Shape) -> Option<Tuple> {
    let items: Option<Vec<_>> = tuple.items.into_iter().map(|one| both(one, item.clone())).collect();
    let rest = match tuple.rest {
        Some(rest) => Some(Box::new(both(*rest, item.clone())?)),
        None => None,
    };
    let needed = tuple.needed;
    Some(Tuple {
        items: items?,
        needed,
        rest,
    })
}

fn merge(one: Object, other: Object) -> Option<Object> {
    let rest = match (one.rest, other.rest) {
        (Rest::Closed, _) | (_, Rest::Closed) => Rest::Closed,
        (Rest::Open(one), Rest::Open(other)) => Rest::Open(Box::new(both(*one, *other)?)),
        (Rest::Open(shape), Rest::Unsaid) | (Rest::Unsaid, Rest::Open(shape)) => Rest::Open(shape),
        (Rest::Unsaid, Rest::Unsaid) => Rest::Unsaid,
    };
    let mut fields = one.fields;
    let mut places: std::collections::HashMap<String, usize> = fields
        .iter()
        .enumerate()
        .map(|(place, field)| (field.name.clone(), place))
        .collect();
    for field in other.fields {
        if let Some(known) = places.get(&field.name).and_then(|place| fields.get_mut(*place)) {
            let shape = std::mem::replace(&mut known.shape, Shape::Never);
            known.shape = both(shape, field.shape)?;
            known.required |= field.required;
            known.words = std::mem::take(&mut known.words).or(field.words);
        } else {
            places.insert(field.name.clone(), fields.len());
            fields.push(field);
        }
    }
    let mut object = Object { fields, rest };
    object.sort();
    Some(object)
}
