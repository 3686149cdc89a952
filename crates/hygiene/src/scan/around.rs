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

/// What the labels say that the lines before and after a stretch begin with.
pub(super) fn lines(scan: &Scan<'_>, start: usize, end: usize) -> Whose {
    let lowest = start.saturating_sub(FAR);
    let highest = scan.bytes.len().min(end + FAR);
    let before = scan.bytes[lowest..start].split(|byte| *byte == b'\n').rev().skip(1);
    let after = scan.bytes[end..highest].split(|byte| *byte == b'\n').skip(1);
    let labels = before.take(KEYS).chain(after.take(KEYS)).filter_map(label);
    Whose::Unsaid.beside(labels)
}

/// What the tags say that stand around a stretch.
pub(super) fn tags(scan: &Scan<'_>, start: usize, end: usize) -> Whose {
    let before = &scan.bytes[start.saturating_sub(FAR)..start];
    let after = &scan.bytes[end..scan.bytes.len().min(end + FAR)];
    let tag = |part: &[u8]| {
        let length = part.iter().take_while(|byte| is_word(**byte)).count();
        let name = std::str::from_utf8(&part[..length])
            .ok()
            .filter(|name| !name.is_empty());
        name.map(str::to_owned)
    };
    let before = before.rsplit(|byte| *byte == b'<').take(2 * KEYS).filter_map(tag);
    let after = after.split(|byte| *byte == b'<').take(2 * KEYS).filter_map(tag);
    let tags: Vec<String> = before.chain(after).collect();
    let over = tags.iter().fold(Whose::Unsaid, |whose, tag| whose.under(tag));
    let over = if over == Whose::Peoples { over } else { Whose::Unsaid };
    over.beside(tags.iter().map(String::as_str))
}

/// The label that a line begins with, if it does.
fn label(line: &[u8]) -> Option<&str> {
    let end = line
        .iter()
        .take(super::label::LABEL)
        .position(|byte| matches!(byte, b':' | b'='))?;
    let label = std::str::from_utf8(&line[..end]).ok()?;
    Some(label.trim_matches(|letter: char| !letter.is_alphanumeric())).filter(|label| !label.is_empty())
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
