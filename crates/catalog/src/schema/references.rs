//! References within one schema. Other documents are never fetched.

use serde_json::Value;

/// The target of a reference.
pub(super) enum ReferenceTarget<'a> {
    Here(&'a Value),
    /// A part of another document.
    Elsewhere,
    /// A missing part: the reference is broken.
    Nowhere,
}

/// The most characters of a reference.
const MAX_REFERENCE_CHARS: usize = 1024;

/// Resolves a reference within its document.
pub(super) fn resolve_reference<'a>(document: &'a Value, reference: &str) -> ReferenceTarget<'a> {
    if reference.len() > MAX_REFERENCE_CHARS {
        return ReferenceTarget::Nowhere;
    }
    let id = document.get("$id").and_then(Value::as_str).unwrap_or_default();
    let (place, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if !place.is_empty() && place != id.trim_end_matches('#') {
        return match definitions(document).find(|schema| schema.get("$id").and_then(Value::as_str) == Some(place)) {
            Some(schema) if fragment.is_empty() => ReferenceTarget::Here(schema),
            Some(schema) => resolve_pointer(schema, fragment),
            None => ReferenceTarget::Elsewhere,
        };
    }
    if fragment.is_empty() {
        return ReferenceTarget::Here(document);
    }
    if fragment.starts_with('/') {
        return resolve_pointer(document, fragment);
    }
    let named = definitions(document).find(|schema| {
        let is = |key: &str, name: &str| schema.get(key).and_then(Value::as_str) == Some(name);
        is("$anchor", fragment) || is("$dynamicAnchor", fragment) || is("$id", &format!("#{fragment}"))
    });
    named.map_or(ReferenceTarget::Nowhere, ReferenceTarget::Here)
}

fn resolve_pointer<'a>(document: &'a Value, pointer: &str) -> ReferenceTarget<'a> {
    document
        .pointer(&percent_decode(pointer))
        .map_or(ReferenceTarget::Nowhere, ReferenceTarget::Here)
}

fn definitions(document: &Value) -> impl Iterator<Item = &Value> {
    let folders = ["$defs", "definitions"].into_iter().filter_map(|key| document.get(key));
    folders.filter_map(Value::as_object).flat_map(|folder| folder.values())
}

/// Decodes percent escapes; a malformed one is kept.
fn percent_decode(pointer: &str) -> String {
    if !pointer.contains('%') {
        return pointer.to_owned();
    }
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| pointer.to_owned())
}
