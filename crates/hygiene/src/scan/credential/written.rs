//! Secrets in forms that some writers have: blocks of YAML, variables of Kubernetes, structures as Go prints them.

use super::super::Scan;
use super::super::label::{LabelKey, add_value_finding, line_label, truncate};
use super::super::number::is_word_byte;
use super::super::surrounding_keys::MAX_DISTANCE;
use super::judge::is_placeholder;
use crate::finding::Evidence;
use crate::keys::NameOwner;
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};

/// Most bytes of the line that begins a block, behind its key.
const MAX_HEADER_BYTES: usize = 80;
/// Most bytes of a block that are hidden.
const MAX_BLOCK_BYTES: usize = 1 << 16;

/// Scans the block of YAML that a secret key begins: `password: |`, and more indented lines. Returns whether there is
/// the beginning of one.
pub(in super::super) fn scan_block(scan: &mut Scan<'_>, at: usize) -> bool {
    let rest = truncate(&scan.text[at + 1..], MAX_HEADER_BYTES);
    let header = rest.split('\n').next().unwrap_or_default();
    if scan.bytes[at] != b':' || header.len() == rest.len() || !is_block_header(header.trim()) {
        return false;
    }
    let Some(key) = line_label(scan, at) else { return false };
    let secret = scan
        .telling(key.text)
        .filter(|telling| telling.kind == SensitiveKind::Secret && scan.kinds.contains(telling.kind));
    let Some(telling) = secret else { return false };
    let from = at + 1 + header.len() + 1;
    if from < scan.given {
        return true;
    }
    let indent = at - key.start - scan.text[key.start..at].trim_start_matches([' ', '-', '"', '\'']).len();
    let Some((start, end)) = block_span(scan, from, indent) else {
        return true;
    };
    scan.given = end;
    let value = &scan.text[start..end];
    let meant = value::kind_of_value(telling, NameOwner::Unknown, value).is_some()
        && value::confirmed_part(value, SensitiveKind::Secret, HintSource::Key).is_some();
    if meant && !is_placeholder(value) {
        add_value_finding(scan, start, (0, end - start), SensitiveKind::Secret, Evidence::Key);
    }
    true
}

/// Whether a text is the header of a block: `|`, `>-`, `|2+`.
fn is_block_header(header: &str) -> bool {
    let header = header.split(" #").next().unwrap_or_default().trim_end();
    let signs = header.strip_prefix(['|', '>']);
    signs.is_some_and(|signs| {
        signs.len() <= 2
            && signs
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+'))
    })
}

/// Returns the lines from here on that are more indented than their key, without the space around.
fn block_span(scan: &Scan<'_>, from: usize, indent: usize) -> Option<(usize, usize)> {
    let mut block: Option<(usize, usize)> = None;
    let mut at = from;
    let last = scan.text.floor_char_boundary(from.saturating_add(MAX_BLOCK_BYTES));
    for line in scan.text.get(from..last)?.split_inclusive('\n') {
        let written = line.trim();
        let lead = line.len() - line.trim_start_matches([' ', '\t']).len();
        if !written.is_empty() {
            if lead <= indent {
                break;
            }
            let start = block.map_or(at + lead, |(start, _)| start);
            block = Some((start, at + line.trim_end().len()));
        }
        at += line.len();
    }
    block
}

/// Returns the name of the variable whose `value:` follows in the next line: `- name: DB_PASSWORD`.
pub(in super::super) fn named_variable<'t>(scan: &Scan<'t>, key: &LabelKey<'t>) -> Option<LabelKey<'t>> {
    let line = scan.text[..key.start].strip_suffix('\n')?;
    let start = line.rfind('\n').map_or(0, |at| at + 1);
    let line = line.get(start..).filter(|line| line.len() <= MAX_DISTANCE)?;
    let plain = line.trim_start_matches([' ', '-']);
    let name = plain.strip_prefix("name:")?.trim().trim_matches(['"', '\'']);
    let good = !name.is_empty() && name.bytes().all(|byte| is_word_byte(byte) || byte == b'-');
    good.then_some(LabelKey { text: name, ..*key })
}

/// Whether a key stands in a structure as Go prints it: `{Email:x Password:hunter2}`.
pub(super) fn is_member_of_printed(scan: &Scan<'_>, start: usize, at: usize) -> bool {
    let capital = scan.byte_at(start).is_ascii_uppercase();
    if !capital || scan.byte_before(start) != b' ' || scan.byte_at(at + 1).is_ascii_whitespace() {
        return false;
    }
    let before = &scan.bytes[start.saturating_sub(MAX_DISTANCE)..start];
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(open) = line.iter().rposition(|byte| *byte == b'{') else {
        return false;
    };
    let inner = &line[open + 1..];
    let name = inner.iter().take_while(|byte| is_word_byte(**byte)).count();
    name > 0 && inner[0].is_ascii_uppercase() && inner.get(name) == Some(&b':') && inner.get(name + 1) != Some(&b' ')
}
