//! Values between tags: `<phone>0301234567</phone>`.

use super::label::{MAX_VALUE_BYTES, add_value_finding, truncate};
use super::number::is_word_byte;
use super::{Scan, surrounding_keys};
use crate::finding::Evidence;
use crate::keys::{self, NameOwner};
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};

/// Scans the text after a `>` that closes a tag with a key hint: `<phone>0301234567</phone>`.
pub(super) fn scan_element(scan: &mut Scan<'_>, at: usize) {
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
        .take_while(|byte| is_word_byte(**byte) || matches!(byte, b'-' | b':'))
        .count();
    let Some(tag) = std::str::from_utf8(&inner[..length])
        .ok()
        .map(|tag| tag.rsplit(':').next().unwrap_or(tag))
    else {
        return;
    };
    let Some(telling) = keys::key_hint(tag).filter(|telling| scan.kinds.contains(telling.kind)) else {
        return;
    };
    let text = truncate(&scan.text[at + 1..], MAX_VALUE_BYTES);
    let Some(end) = text.find('<').filter(|end| text[*end..].starts_with("</")) else {
        return;
    };
    let value = &text[..end];
    let whose = if telling.is_sure() {
        NameOwner::Unknown
    } else {
        surrounding_keys::name_owner_from_tags(scan, lowest + open, at + 1 + end)
    };
    if value::kind_of_value(telling, whose, value).is_none()
        || telling.kind == SensitiveKind::Secret && value::describes_secret(value)
    {
        return;
    }
    if let Some(part) = value::confirmed_part(value, telling.kind, HintSource::Key) {
        add_value_finding(scan, at + 1, part, telling.kind, Evidence::Key);
    }
}

/// Most bytes of a tag that are checked.
const TAG: usize = 96;
