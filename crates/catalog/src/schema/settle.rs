//! Simplifies named shapes: names remain only where they are needed, none stands for itself, and no two stand for the same shape.
#![expect(clippy::wildcard_enum_match_arm, reason = "only names and unions are looked into")]

use std::collections::BTreeSet;

use super::{Named, Shape, Types, union};

/// The deepest shape that replaces its name.
const SHALLOW: usize = 6;
/// The most rounds of inlining: each round makes the shapes that contained a replaced name replaceable.
const ROUNDS: usize = 4;
/// The most members of a union that may occur in several positions without a name.
const SHORT: usize = 6;

pub(super) fn settle(mut types: Types) -> Types {
    for place in 0..types.named.len() {
        types.named[place].shape = without_self(&types.named, place);
    }
    types.root = flat(&types.named, &types.root);
    for _ in 0..ROUNDS {
        if !inline(&mut types) {
            break;
        }
    }
    share(&mut types);
    sweep(&mut types);
    types
}

/// The shape of a name. A part of a union that leads directly back to the name is removed, because it adds nothing.
fn without_self(named: &[Named], place: usize) -> Shape {
    let mut seen = BTreeSet::from([place]);
    let shape = named.get(place).map_or(Shape::Unknown, |named| named.shape.clone());
    match opened(named, shape, &mut seen) {
        Shape::Never => Shape::Unknown,
        shape => shape,
    }
}

fn opened(named: &[Named], shape: Shape, seen: &mut BTreeSet<usize>) -> Shape {
    match shape {
        Shape::Named(place) if !leads_on(named, place) => Shape::Named(place),
        Shape::Named(place) if seen.insert(place) => {
            let inner = named.get(place).map_or(Shape::Unknown, |named| named.shape.clone());
            opened(named, inner, seen)
        }
        Shape::Named(_) => Shape::Never,
        Shape::Union(members) => {
            let members: Vec<_> = members.into_iter().map(|member| opened(named, member, seen)).collect();
            union(members)
        }
        other => other,
    }
}

/// Whether a name stands for another name, or for a union with one: only then can it stand for itself.
fn leads_on(named: &[Named], place: usize) -> bool {
    match named.get(place).map(|named| &named.shape) {
        Some(Shape::Named(_)) => true,
        Some(Shape::Union(members)) => members.iter().any(|member| matches!(member, Shape::Named(_))),
        _ => false,
    }
}

/// The root, or unknown if it is a name that stands only for another name.
fn flat(named: &[Named], root: &Shape) -> Shape {
    match root {
        Shape::Named(place) => match named.get(*place).map(|named| &named.shape) {
            Some(Shape::Named(_)) | None => Shape::Unknown,
            Some(_) => Shape::Named(*place),
        },
        other => other.clone(),
    }
}

/// Replaces names that are used once or have short shapes. Returns whether there was one.
fn inline(types: &mut Types) -> bool {
    let mut uses = vec![0usize; types.named.len()];
    count(&types.root, &mut uses);
    types.named.iter().for_each(|named| count(&named.shape, &mut uses));
    let fit = |(place, named): (usize, &Named)| {
        let few = uses.get(place).is_some_and(|uses| *uses == 1) || short(&named.shape);
        (few && shallow(&named.shape, SHALLOW)).then(|| named.shape.clone())
    };
    let fit: Vec<Option<Shape>> = types.named.iter().enumerate().map(fit).collect();
    let mut changed = replace(&mut types.root, &fit);
    for named in &mut types.named {
        changed |= replace(&mut named.shape, &fit);
    }
    changed
}

fn count(shape: &Shape, uses: &mut [usize]) {
    if let Shape::Named(place) = shape
        && let Some(uses) = uses.get_mut(*place)
    {
        *uses += 1;
    }
    shape.inner().into_iter().for_each(|inner| count(inner, uses));
}

/// Whether a shape has at most this depth and no names.
fn shallow(shape: &Shape, depth: usize) -> bool {
    match shape {
        Shape::Named(_) => false,
        other => depth > 0 && other.inner().into_iter().all(|inner| shallow(inner, depth - 1)),
    }
}

fn short(shape: &Shape) -> bool {
    match shape {
        Shape::Union(members) => members.len() <= SHORT && members.iter().all(short),
        Shape::List(item) => short(item),
        Shape::Object(object) => object.fields.is_empty() && shape.inner().into_iter().all(short),
        Shape::Tuple(_) | Shape::Named(_) => false,
        _ => true,
    }
}

fn replace(shape: &mut Shape, by: &[Option<Shape>]) -> bool {
    if let Shape::Named(place) = shape {
        let Some(Some(new)) = by.get(*place) else { return false };
        *shape = new.clone();
        return true;
    }
    let mut changed = false;
    for inner in shape.inner_mut() {
        changed |= replace(inner, by);
    }
    if changed && let Shape::Union(members) = shape {
        *shape = union(std::mem::take(members));
    }
    changed
}

/// Uses one name for equal shapes, including the root.
fn share(types: &mut Types) {
    let first = |place: usize, named: &[Named]| {
        let shape = named.get(place).map(|named| &named.shape);
        named
            .iter()
            .position(|other| Some(&other.shape) == shape)
            .unwrap_or(place)
    };
    let same: Vec<Option<Shape>> = (0..types.named.len())
        .map(|place| {
            let first = first(place, &types.named);
            (first != place).then_some(Shape::Named(first))
        })
        .collect();
    if let Some(place) = types.named.iter().position(|named| named.shape == types.root)
        && matches!(types.root, Shape::Object(_))
    {
        types.root = Shape::Named(place);
    }
    replace(&mut types.root, &same);
    for named in &mut types.named {
        replace(&mut named.shape, &same);
    }
}

/// Removes names that no shape uses.
fn sweep(types: &mut Types) {
    let mut used = BTreeSet::new();
    let mut pending = vec![&types.root];
    while let Some(shape) = pending.pop() {
        if let Shape::Named(place) = shape
            && used.insert(*place)
            && let Some(named) = types.named.get(*place)
        {
            pending.push(&named.shape);
        }
        pending.extend(shape.inner());
    }
    let moved: Vec<Option<Shape>> = (0..types.named.len())
        .map(|place| used.iter().position(|one| *one == place).map(Shape::Named))
        .collect();
    let mut kept: Vec<Named> = used
        .iter()
        .filter_map(|place| types.named.get(*place).cloned())
        .collect();
    replace(&mut types.root, &moved);
    for named in &mut kept {
        replace(&mut named.shape, &moved);
    }
    types.named = kept;
}
