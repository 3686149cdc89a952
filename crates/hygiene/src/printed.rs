//! Structures that programs print: JSON, what `console.log` shows, what Python's `repr` gives. What stands in them is read by the
//! same rules as a parsed answer: a key over a list or object, `{field, value}`, `{columns, rows}`.

mod parse;

use serde_json::{Map, Value};

use crate::finding::{Evidence, Finding};
use crate::hints::Hints;
use crate::json::{Columns, Standing};
use crate::kind::{Kind, Kinds};
use crate::value::{self, Ground};
use parse::{Node, Span};

/// What the keys of printed structures say of the values in them.
pub(crate) fn find(text: &str, kinds: Kinds, out: &mut Vec<Finding>) {
    let hints = Hints::none();
    let mut walk = Walk { text, kinds, out };
    for node in parse::structures(text) {
        let value = walk.read(&node);
        walk.node(&node, &value, Standing::top(&hints));
    }
}

struct Walk<'t, 'o> {
    text: &'t str,
    kinds: Kinds,
    out: &'o mut Vec<Finding>,
}

impl Walk<'_, '_> {
    fn part(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// A structure as its rules ask for it.
    fn read(&self, node: &Node) -> Value {
        match node {
            Node::Text(span) | Node::Number(span) => Value::from(self.part(*span)),
            Node::Other => Value::Null,
            Node::List(items) | Node::Tuple(items) => items.iter().map(|item| self.read(item)).collect(),
            Node::Object(members) => {
                let member = |(key, node): &(Span, Node)| (self.part(*key).to_owned(), self.read(node));
                Value::Object(members.iter().map(member).collect::<Map<_, _>>())
            }
        }
    }

    fn node(&mut self, node: &Node, value: &Value, standing: Standing<'_>) {
        match (node, value) {
            (Node::Text(span), _) => {
                let kind = standing.kind_of(self.part(*span));
                self.note(*span, kind);
            }
            (Node::Number(span), _) => {
                let number = self.part(*span);
                // A short number in a list of them is a part of an address of a machine, or of nothing.
                let short = number.len() < 4;
                let kind = standing.kind_of_number(number);
                self.note(*span, kind.filter(|kind| *kind != Kind::Address || !short));
            }
            (Node::List(nodes) | Node::Tuple(nodes), Value::Array(items)) => {
                let heads = matches!(nodes.first(), Some(Node::List(_)));
                let heading = heads.then(|| Columns::heading(items)).flatten();
                let standing = standing.list(heading.as_ref());
                for (index, (node, item)) in nodes.iter().zip(items).enumerate() {
                    self.node(node, item, standing.item(index));
                }
            }
            (Node::Object(nodes), Value::Object(members)) => {
                let columns = Columns::beside(members);
                let standing = standing.object(members, columns.as_ref());
                for (key, node) in nodes {
                    let key = self.part(*key).to_owned();
                    let value = members.get(&key).unwrap_or(&Value::Null);
                    self.node(node, value, standing.member(&key));
                }
            }
            // Of members with one key the last counts.
            (Node::List(_) | Node::Tuple(_) | Node::Object(_) | Node::Other, _) => {}
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
