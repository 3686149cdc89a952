//! Structures that programs print: JSON, the output of `console.log`, Python's `repr`. Their values are checked by
//! the same rules as a parsed answer: a key above a list or object, `{field, value}`, `{columns, rows}`.

mod parse;

use serde_json::{Map, Value};

use crate::finding::{Evidence, Finding};
use crate::hints::Hints;
use crate::json::{Columns, Standing, is_columns, is_pairs_value, is_part};
use crate::kind::{Kind, Kinds};
use crate::value::{self, Ground};
use parse::{Node, Span};

/// Finds values in printed structures by their keys. The key of a value itself is handled elsewhere: this finds only
/// what several keys say together.
pub(crate) fn find(text: &str, kinds: Kinds, out: &mut Vec<Finding>) {
    let hints = Hints::none();
    let mut walk = Walk { text, kinds, out };
    for node in parse::structures(text) {
        walk.node(&node, Standing::top(&hints));
    }
}

struct Walk<'t, 'o> {
    text: &'t str,
    kinds: Kinds,
    out: &'o mut Vec<Finding>,
}

/// Most levels between column names and their key.
const NAMES: usize = 3;

impl<'t> Walk<'t, '_> {
    fn part(&self, span: Span) -> &'t str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Converts as much of a structure as its rules need.
    fn read(&self, node: &Node, depth: usize) -> Value {
        match node {
            Node::Text(span) | Node::Number(span) => Value::from(self.part(*span)),
            Node::List(items) | Node::Tuple(items) if depth > 0 => {
                items.iter().map(|item| self.read(item, depth - 1)).collect()
            }
            Node::Object(members) if depth > 0 => Value::Object(self.members(members, depth - 1)),
            Node::List(_) | Node::Tuple(_) => Value::Array(Vec::new()),
            Node::Object(_) => Value::Object(Map::new()),
            Node::Other => Value::Null,
        }
    }

    fn members(&self, members: &[(Span, Node)], depth: usize) -> Map<String, Value> {
        let read = |(key, node): &(Span, Node)| {
            let key = self.part(*key);
            let depth = if is_columns(key) { NAMES } else { depth };
            (key.to_owned(), self.read(node, depth))
        };
        members.iter().map(read).collect()
    }

    fn node(&mut self, node: &Node, standing: Standing<'_>) {
        match node {
            Node::Text(span) => {
                let kind = standing.kind_of(self.part(*span));
                self.note(*span, kind);
            }
            Node::Number(span) => {
                let number = self.part(*span);
                // A short number in a list of them is a part of an IP address, or nothing.
                let short = number.len() < 4;
                let kind = standing.kind_of_number(number);
                self.note(*span, kind.filter(|kind| *kind != Kind::Address || !short));
            }
            Node::List(items) | Node::Tuple(items) => self.list(items, standing),
            Node::Object(members) => self.object(members, standing),
            Node::Other => {}
        }
    }

    fn list(&mut self, items: &[Node], standing: Standing<'_>) {
        let heading = match items {
            [first @ Node::List(_), second @ (Node::List(_) | Node::Tuple(_)), ..] => {
                Columns::heading(&[self.read(first, NAMES), self.read(second, 1)])
            }
            _ => None,
        };
        let standing = standing.list(heading.as_ref());
        for (index, item) in items.iter().enumerate() {
            let standing = standing.item(index);
            if item.is_structure() || standing.tells() {
                self.node(item, standing);
            }
        }
    }

    fn object(&mut self, members: &[(Span, Node)], standing: Standing<'_>) {
        let says = |key: &str| is_pairs_value(key) || is_columns(key) || standing.tells() && is_part(key);
        if !members.iter().any(|(key, _)| says(self.part(*key))) {
            for (key, node) in members.iter().filter(|(_, node)| node.is_structure()) {
                self.node(node, standing.member(self.part(*key)));
            }
            return;
        }
        let read = self.members(members, 0);
        let columns = Columns::beside(&read);
        let standing = standing.object(&read, columns.as_ref());
        for (key, node) in members {
            self.node(node, standing.member(self.part(*key)));
        }
    }

    fn note(&mut self, span: Span, kind: Option<Kind>) {
        let Some(kind) = kind.filter(|kind| self.kinds.has(*kind)) else {
            return;
        };
        let value = self.part(span);
        if kind == Kind::Secret && value::is_told(value) {
            return;
        }
        if let Some((start, end)) = value::borne_out(value, kind, Ground::Key) {
            self.out.push(Finding {
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
