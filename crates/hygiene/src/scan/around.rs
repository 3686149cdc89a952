//! What stands around a key in printed structures: the keys beside it, and those that it stands under.

use super::Scan;
use super::number::is_word;
use crate::keys::Whose;

/// How far to look, back and ahead, and how many keys are asked.
const FAR: usize = 320;
const KEYS: usize = 8;

/// What the names in the object around a stretch are names of.
pub(super) fn whose(scan: &Scan<'_>, start: usize, end: usize) -> Whose {
    let mut beside = Vec::new();
    let mut over = Vec::new();
    let mut depth = 0_usize;
    for at in (start.saturating_sub(FAR)..start).rev() {
        match scan.bytes[at] {
            b'}' | b')' | b']' => depth += 1,
            b'{' | b'(' | b'[' if depth > 0 => depth -= 1,
            b'{' | b'(' | b'[' => over.extend(opened_by(scan, at)),
            b':' | b'=' if depth == 0 && over.is_empty() && beside.len() < KEYS => beside.extend(key(scan, at)),
            _ => {}
        }
    }
    depth = 0;
    for at in end..scan.bytes.len().min(end + FAR) {
        match scan.bytes[at] {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' if depth > 0 => depth -= 1,
            b'}' | b')' | b']' => break,
            b':' | b'=' if depth == 0 && beside.len() < 2 * KEYS => beside.extend(key(scan, at)),
            _ => {}
        }
    }
    let whose = over.into_iter().rev().fold(Whose::Unsaid, Whose::under);
    whose.beside(beside.into_iter())
}

/// The key whose value an opening bracket begins, or the word before it: `customers: [`, `Customer(`.
fn opened_by<'t>(scan: &Scan<'t>, at: usize) -> Option<&'t str> {
    let before = scan.bytes[..at].trim_ascii_end();
    match before.last()? {
        b':' | b'=' => key(scan, before.len() - 1),
        byte if is_word(*byte) => key(scan, at),
        _ => None,
    }
}

/// The word that ends before a byte, quoted or not.
fn key<'t>(scan: &Scan<'t>, at: usize) -> Option<&'t str> {
    let lowest = at.saturating_sub(super::label::LABEL);
    let before = scan.bytes[lowest..at].trim_ascii_end();
    let before = before
        .strip_suffix(b"\"")
        .or_else(|| before.strip_suffix(b"'"))
        .unwrap_or(before);
    let length = before
        .iter()
        .rev()
        .take_while(|byte| is_word(**byte) || **byte == b'-')
        .count();
    let end = lowest + before.len();
    scan.text.get(end - length..end).filter(|key| !key.is_empty())
}
