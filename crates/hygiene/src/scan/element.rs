//! Values between tags: `<phone>0301234567</phone>`.

use super::label::{VALUE, first, note};
use super::number::is_word;
use super::{Scan, around};
use crate::finding::Evidence;
use crate::keys::{self, Whose};
use crate::kind::Kind;
use crate::value::{self, Ground};

/// Scans the text after a `>` that closes a tag with a key hint: `<phone>0301234567</phone>`.
pub(super) fn at(scan: &mut Scan<'_>, at: usize) {
    let lowest = at.saturating_sub(TAG);
    let before = &scan.bytes[lowest..at];
    let Some(open) = before.iter().rposition(|byte| matches!(byte, b'<' | b'>' | b'\n')) else {
        return;
    };
    let inner = &before[open + 1..];
    if before[open] != b'<' || !inner.first().is_some_and(u8::is_ascii_alphabetic) {
        return;
    }
    let length = inner
        .iter()
        .take_while(|byte| is_word(**byte) || matches!(byte, b'-' | b':'))
        .count();
    let Some(tag) = std::str::from_utf8(&inner[..length])
        .ok()
        .map(|tag| tag.rsplit(':').next().unwrap_or(tag))
    else {
        return;
    };
    let Some(telling) = keys::telling(tag).filter(|telling| scan.kinds.has(telling.kind)) else {
        return;
    };
    let text = first(&scan.text[at + 1..], VALUE);
    let Some(end) = text.find('<').filter(|end| text[*end..].starts_with("</")) else {
        return;
    };
    let value = &text[..end];
    let whose = if telling.is_sure() {
        Whose::Unsaid
    } else {
        around::tags(scan, lowest + open, at + 1 + end)
    };
    if value::meant(telling, whose, value).is_none() || telling.kind == Kind::Secret && value::is_told(value) {
        return;
    }
    if let Some(part) = value::borne_out(value, telling.kind, Ground::Key) {
        note(scan, at + 1, part, telling.kind, Evidence::Key);
    }
}

/// Most bytes of a tag that are checked.
const TAG: usize = 96;
