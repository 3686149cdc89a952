//! Surrounding keys in printed structures: the keys beside a value, and those above it.

use std::cell::{Cell, OnceCell};

use super::Scan;
use super::number::is_word_byte;
use crate::keys::{NameOwner, NameOwnerHint};

/// How far to search, back and ahead, and the most keys to look up.
pub(super) const MAX_DISTANCE: usize = 320;
const MAX_KEYS: usize = 8;

/// Slots of the cache of key hints: more than there are keys around any position.
const HINTS: usize = 1024;

/// A cache of key hints by position; each slot holds the last key that used it. In hostile text each key is looked up
/// once, and not once for each neighbour.
#[derive(Default)]
pub(super) struct NearbyKeyHints(OnceCell<Box<[Cell<Option<RememberedKey>>]>>);

#[derive(Clone, Copy)]
struct RememberedKey {
    start: usize,
    length: usize,
    hint: NameOwnerHint,
}

impl Scan<'_> {
    /// Returns the hint of a key that is part of the text.
    fn key_hint(&self, key: &str) -> NameOwnerHint {
        let start = key.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let slots = self.hints.0.get_or_init(|| vec![Cell::new(None); HINTS].into());
        let slot = &slots[start % HINTS];
        match slot.get() {
            Some(known) if (known.start, known.length) == (start, key.len()) => known.hint,
            Some(_) | None => {
                let hint = NameOwnerHint::of_key(key);
                slot.set(Some(RememberedKey {
                    start,
                    length: key.len(),
                    hint,
                }));
                hint
            }
        }
    }
}

/// Returns the name owner in the object around a range.
pub(super) fn name_owner_around(scan: &Scan<'_>, start: usize, end: usize) -> NameOwner {
    let mut beside = Vec::new();
    let mut over = Vec::new();
    let mut depth = 0_usize;
    for at in (start.saturating_sub(MAX_DISTANCE)..start).rev() {
        match scan.bytes[at] {
            b'}' | b')' | b']' => depth += 1,
            b'{' | b'(' | b'[' if depth > 0 => depth -= 1,
            b'{' | b'(' | b'[' => over.extend(opening_key(scan, at)),
            b':' | b'=' if depth == 0 && over.is_empty() && beside.len() < MAX_KEYS => {
                beside.extend(key_before(scan, at));
            }
            _ => {}
        }
    }
    depth = 0;
    for at in end..scan.bytes.len().min(end + MAX_DISTANCE) {
        match scan.bytes[at] {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' if depth > 0 => depth -= 1,
            b'}' | b')' | b']' => break,
            b':' | b'=' if depth == 0 && beside.len() < 2 * MAX_KEYS => beside.extend(key_before(scan, at)),
            _ => {}
        }
    }
    let over = over.into_iter().rev().map(|key| scan.key_hint(key));
    let whose = over.fold(NameOwner::Unknown, NameOwner::under_hint);
    whose.beside_hints(beside.into_iter().map(|key| scan.key_hint(key)))
}

/// Returns the name owner by the labels of the lines before and after a range.
pub(super) fn name_owner_from_lines(scan: &Scan<'_>, start: usize, end: usize) -> NameOwner {
    let lowest = start.saturating_sub(MAX_DISTANCE);
    let highest = scan.bytes.len().min(end + MAX_DISTANCE);
    let before = scan.bytes[lowest..start].split(|byte| *byte == b'\n').rev().skip(1);
    let after = scan.bytes[end..highest].split(|byte| *byte == b'\n').skip(1);
    let labels = before.take(MAX_KEYS).chain(after.take(MAX_KEYS)).filter_map(line_label);
    NameOwner::Unknown.beside_hints(labels.map(|label| scan.key_hint(label)))
}

/// Returns the name owner by the tags around a range.
pub(super) fn name_owner_from_tags(scan: &Scan<'_>, start: usize, end: usize) -> NameOwner {
    let before = &scan.bytes[start.saturating_sub(MAX_DISTANCE)..start];
    let after = &scan.bytes[end..scan.bytes.len().min(end + MAX_DISTANCE)];
    let before = before.rsplit(|byte| *byte == b'<').take(2 * MAX_KEYS).filter_map(tag);
    let after = after.split(|byte| *byte == b'<').take(2 * MAX_KEYS).filter_map(tag);
    let tags: Vec<NameOwnerHint> = before.chain(after).map(|tag| scan.key_hint(tag)).collect();
    let over = tags.iter().copied().fold(NameOwner::Unknown, NameOwner::under_hint);
    let over = if over == NameOwner::People {
        over
    } else {
        NameOwner::Unknown
    };
    over.beside_hints(tags.into_iter())
}

/// Returns the name that a tag begins with.
fn tag(part: &[u8]) -> Option<&str> {
    let length = part.iter().take_while(|byte| is_word_byte(**byte)).count();
    let name = std::str::from_utf8(&part[..length]).ok();
    name.filter(|name| !name.is_empty())
}

/// Returns the label that a line begins with, if it has one.
fn line_label(line: &[u8]) -> Option<&str> {
    let end = line
        .iter()
        .take(super::label::MAX_LABEL_BYTES)
        .position(|byte| matches!(byte, b':' | b'='))?;
    let label = std::str::from_utf8(&line[..end]).ok()?;
    Some(label.trim_matches(|letter: char| !letter.is_alphanumeric())).filter(|label| !label.is_empty())
}

/// Returns the key whose value an opening bracket begins, or the word before it: `customers: [`, `Customer(`.
fn opening_key<'t>(scan: &Scan<'t>, at: usize) -> Option<&'t str> {
    let before = scan.bytes[..at].trim_ascii_end();
    match before.last()? {
        b':' | b'=' => key_before(scan, before.len() - 1),
        byte if is_word_byte(*byte) => key_before(scan, at),
        _ => None,
    }
}

/// Returns the word that ends before a byte, quoted or not.
fn key_before<'t>(scan: &Scan<'t>, at: usize) -> Option<&'t str> {
    let lowest = at.saturating_sub(super::label::MAX_LABEL_BYTES);
    let before = scan.bytes[lowest..at].trim_ascii_end();
    let before = before
        .strip_suffix(b"\"")
        .or_else(|| before.strip_suffix(b"'"))
        .unwrap_or(before);
    let length = before
        .iter()
        .rev()
        .take_while(|byte| is_word_byte(**byte) || **byte == b'-')
        .count();
    let end = lowest + before.len();
    scan.text.get(end - length..end).filter(|key| !key.is_empty())
}
