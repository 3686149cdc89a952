//! Structures that programs print: JSON, the output of `console.log`, Python's `repr`. Their values are checked by
//! the same rules as a parsed answer: a key above a list or object, `{field, value}`, `{columns, rows}`.

mod parse;

use serde_json::{Map, Value};

use crate::finding::{Evidence, SensitiveSpan};
use crate::hints::SchemaHints;
use crate::json_context::{JsonColumns, ValueContext, is_columns, is_field_value_key, is_neutral_key};
use crate::kind::{SensitiveKind, SensitiveKinds};
use crate::value::{self, HintSource};
use parse::{PrintedNode, TextSpan};

/// Finds values in printed structures by their keys. The key of a value itself is handled elsewhere: this finds only
/// what several keys say together.
pub(crate) fn find_in_printed(text: &str, kinds: SensitiveKinds, out: &mut Vec<SensitiveSpan>) {
    let hints = SchemaHints::none();
    let mut walk = PrintedWalk { text, kinds, out };
    for node in parse::parse_structures(text) {
        walk.node(&node, ValueContext::root(&hints));
    }
}

struct PrintedWalk<'t, 'o> {
    text: &'t str,
    kinds: SensitiveKinds,
    out: &'o mut Vec<SensitiveSpan>,
}

/// Most levels between column names and their key.
const COLUMN_NAME_DEPTH: usize = 3;

impl<'t> PrintedWalk<'t, '_> {
    fn text_of(&self, span: TextSpan) -> &'t str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Converts as much of a structure as its rules need.
    fn read(&self, node: &PrintedNode, depth: usize) -> Value {
        match node {
            PrintedNode::Text(span) | PrintedNode::Number(span) => Value::from(self.text_of(*span)),
            PrintedNode::List(items) | PrintedNode::Tuple(items) if depth > 0 => {
                items.iter().map(|item| self.read(item, depth - 1)).collect()
            }
            PrintedNode::Object(members) if depth > 0 => Value::Object(self.members(members, depth - 1)),
            PrintedNode::List(_) | PrintedNode::Tuple(_) => Value::Array(Vec::new()),
            PrintedNode::Object(_) => Value::Object(Map::new()),
            PrintedNode::Other => Value::Null,
        }
    }

    fn members(&self, members: &[(TextSpan, PrintedNode)], depth: usize) -> Map<String, Value> {
        let read = |(key, node): &(TextSpan, PrintedNode)| {
            let key = self.text_of(*key);
            let depth = if is_columns(key) { COLUMN_NAME_DEPTH } else { depth };
            (key.to_owned(), self.read(node, depth))
        };
        members.iter().map(read).collect()
    }

    fn node(&mut self, node: &PrintedNode, standing: ValueContext<'_>) {
        match node {
            PrintedNode::Text(span) => {
                let kind = standing.text_kind(self.text_of(*span));
                self.note(*span, kind);
            }
            PrintedNode::Number(span) => {
                let number = self.text_of(*span);
                // A short number in a list of them is a part of an IP address, or nothing.
                let short = number.len() < 4;
                let kind = standing.number_kind(number);
                self.note(*span, kind.filter(|kind| *kind != SensitiveKind::Address || !short));
            }
            PrintedNode::List(items) | PrintedNode::Tuple(items) => self.list(items, standing),
            PrintedNode::Object(members) => self.object(members, standing),
            PrintedNode::Other => {}
        }
    }

    fn list(&mut self, items: &[PrintedNode], standing: ValueContext<'_>) {
        let heading = match items {
            [
                first @ PrintedNode::List(_),
                second @ (PrintedNode::List(_) | PrintedNode::Tuple(_)),
                ..,
            ] => JsonColumns::from_first_row(&[self.read(first, COLUMN_NAME_DEPTH), self.read(second, 1)]),
            _ => None,
        };
        let standing = standing.for_list(heading.as_ref());
        for (index, item) in items.iter().enumerate() {
            let standing = standing.for_item(index);
            if item.is_structure() || standing.tells() {
                self.node(item, standing);
            }
        }
    }

    fn object(&mut self, members: &[(TextSpan, PrintedNode)], standing: ValueContext<'_>) {
        let says = |key: &str| is_field_value_key(key) || is_columns(key) || standing.tells() && is_neutral_key(key);
        if !members.iter().any(|(key, _)| says(self.text_of(*key))) {
            for (key, node) in members.iter().filter(|(_, node)| node.is_structure()) {
                self.node(node, standing.for_member(self.text_of(*key)));
            }
            return;
        }
        let read = self.members(members, 0);
        let columns = JsonColumns::from_members(&read);
        let standing = standing.for_object(&read, columns.as_ref());
        for (key, node) in members {
            self.node(node, standing.for_member(self.text_of(*key)));
        }
    }

    fn note(&mut self, span: TextSpan, kind: Option<SensitiveKind>) {
        let Some(kind) = kind.filter(|kind| self.kinds.contains(*kind)) else {
            return;
        };
        let value = self.text_of(span);
        if kind == SensitiveKind::Secret && value::describes_secret(value) {
            return;
        }
        if let Some((start, end)) = value::confirmed_part(value, kind, HintSource::Key) {
            self.out.push(SensitiveSpan {
                start: span.start + start,
                end: span.start + end,
                kind,
                by: Evidence::Key,
            });
        }
    }
}

#[cfg(test)]
mod tests;
