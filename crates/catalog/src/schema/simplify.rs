//! Simplifies named shapes: names remain only where they are needed, none stands for itself, and no two stand for the same shape.
#![expect(clippy::wildcard_enum_match_arm, reason = "only names and unions are looked into")]

use std::collections::BTreeSet;

use super::{NamedShape, SchemaShape, SchemaTypes, union};

/// The deepest shape that replaces its name.
const MAX_INLINE_DEPTH: usize = 6;
/// The most rounds of inlining: each round makes the shapes that contained a replaced name replaceable.
const MAX_INLINE_ROUNDS: usize = 4;
/// The most members of a union that may occur in several positions without a name.
const MAX_SHORT_UNION: usize = 6;

pub(super) fn simplify_types(mut types: SchemaTypes) -> SchemaTypes {
    for place in 0..types.named.len() {
        types.named[place].shape = remove_self_reference(&types.named, place);
    }
    types.root = flatten_root(&types.named, &types.root);
    for _ in 0..MAX_INLINE_ROUNDS {
        if !inline_names(&mut types) {
            break;
        }
    }
    share_equal_shapes(&mut types);
    remove_unused_names(&mut types);
    types
}

/// The shape of a name. A part of a union that leads directly back to the name is removed, because it adds nothing.
fn remove_self_reference(named: &[NamedShape], place: usize) -> SchemaShape {
    let mut seen = BTreeSet::from([place]);
    let shape = named
        .get(place)
        .map_or(SchemaShape::Unknown, |named| named.shape.clone());
    match expand_names(named, shape, &mut seen) {
        SchemaShape::Never => SchemaShape::Unknown,
        shape => shape,
    }
}

fn expand_names(named: &[NamedShape], shape: SchemaShape, seen: &mut BTreeSet<usize>) -> SchemaShape {
    match shape {
        SchemaShape::Named(place) if !may_mean_itself(named, place) => SchemaShape::Named(place),
        SchemaShape::Named(place) if seen.insert(place) => {
            let inner = named
                .get(place)
                .map_or(SchemaShape::Unknown, |named| named.shape.clone());
            expand_names(named, inner, seen)
        }
        SchemaShape::Named(_) => SchemaShape::Never,
        SchemaShape::Union(members) => {
            let members: Vec<_> = members
                .into_iter()
                .map(|member| expand_names(named, member, seen))
                .collect();
            union(members)
        }
        other => other,
    }
}

/// Whether a name stands for another name, or for a union with one: only then can it stand for itself.
fn may_mean_itself(named: &[NamedShape], place: usize) -> bool {
    match named.get(place).map(|named| &named.shape) {
        Some(SchemaShape::Named(_)) => true,
        Some(SchemaShape::Union(members)) => members.iter().any(|member| matches!(member, SchemaShape::Named(_))),
        _ => false,
    }
}

/// The root, or unknown if it is a name that stands only for another name.
fn flatten_root(named: &[NamedShape], root: &SchemaShape) -> SchemaShape {
    match root {
        SchemaShape::Named(place) => match named.get(*place).map(|named| &named.shape) {
            Some(SchemaShape::Named(_)) | None => SchemaShape::Unknown,
            Some(_) => SchemaShape::Named(*place),
        },
        other => other.clone(),
    }
}

/// Replaces names that are used once or have short shapes. Returns whether there was one.
fn inline_names(types: &mut SchemaTypes) -> bool {
    let mut uses = vec![0usize; types.named.len()];
    count_uses(&types.root, &mut uses);
    types.named.iter().for_each(|named| count_uses(&named.shape, &mut uses));
    let fit = |(place, named): (usize, &NamedShape)| {
        let few = uses.get(place).is_some_and(|uses| *uses == 1) || is_short(&named.shape);
        (few && is_shallow(&named.shape, MAX_INLINE_DEPTH)).then(|| named.shape.clone())
    };
    let fit: Vec<Option<SchemaShape>> = types.named.iter().enumerate().map(fit).collect();
    let mut changed = replace_names(&mut types.root, &fit);
    for named in &mut types.named {
        changed |= replace_names(&mut named.shape, &fit);
    }
    changed
}

fn count_uses(shape: &SchemaShape, uses: &mut [usize]) {
    if let SchemaShape::Named(place) = shape
        && let Some(uses) = uses.get_mut(*place)
    {
        *uses += 1;
    }
    shape.children().into_iter().for_each(|inner| count_uses(inner, uses));
}

/// Whether a shape has at most this depth and no names.
fn is_shallow(shape: &SchemaShape, depth: usize) -> bool {
    match shape {
        SchemaShape::Named(_) => false,
        other => depth > 0 && other.children().into_iter().all(|inner| is_shallow(inner, depth - 1)),
    }
}

fn is_short(shape: &SchemaShape) -> bool {
    match shape {
        SchemaShape::Union(members) => members.len() <= MAX_SHORT_UNION && members.iter().all(is_short),
        SchemaShape::List(item) => is_short(item),
        SchemaShape::Object(object) => object.fields.is_empty() && shape.children().into_iter().all(is_short),
        SchemaShape::Tuple(_) | SchemaShape::Named(_) => false,
        _ => true,
    }
}

fn replace_names(shape: &mut SchemaShape, by: &[Option<SchemaShape>]) -> bool {
    if let SchemaShape::Named(place) = shape {
        let Some(Some(new)) = by.get(*place) else { return false };
        *shape = new.clone();
        return true;
    }
    let mut changed = false;
    for inner in shape.children_mut() {
        changed |= replace_names(inner, by);
    }
    if changed && let SchemaShape::Union(members) = shape {
        *shape = union(std::mem::take(members));
    }
    changed
}

/// Uses one name for equal shapes, including the root.
fn share_equal_shapes(types: &mut SchemaTypes) {
    let first = |place: usize, named: &[NamedShape]| {
        let shape = named.get(place).map(|named| &named.shape);
        named
            .iter()
            .position(|other| Some(&other.shape) == shape)
            .unwrap_or(place)
    };
    let same: Vec<Option<SchemaShape>> = (0..types.named.len())
        .map(|place| {
            let first = first(place, &types.named);
            (first != place).then_some(SchemaShape::Named(first))
        })
        .collect();
    if let Some(place) = types.named.iter().position(|named| named.shape == types.root)
        && matches!(types.root, SchemaShape::Object(_))
    {
        types.root = SchemaShape::Named(place);
    }
    replace_names(&mut types.root, &same);
    for named in &mut types.named {
        replace_names(&mut named.shape, &same);
    }
}

/// Removes names that no shape uses.
fn remove_unused_names(types: &mut SchemaTypes) {
    let mut used = BTreeSet::new();
    let mut pending = vec![&types.root];
    while let Some(shape) = pending.pop() {
        if let SchemaShape::Named(place) = shape
            && used.insert(*place)
            && let Some(named) = types.named.get(*place)
        {
            pending.push(&named.shape);
        }
        pending.extend(shape.children());
    }
    let moved: Vec<Option<SchemaShape>> = (0..types.named.len())
        .map(|place| used.iter().position(|one| *one == place).map(SchemaShape::Named))
        .collect();
    let mut kept: Vec<NamedShape> = used
        .iter()
        .filter_map(|place| types.named.get(*place).cloned())
        .collect();
    replace_names(&mut types.root, &moved);
    for named in &mut kept {
        replace_names(&mut named.shape, &moved);
    }
    types.named = kept;
}
