//! Removes findings for good, without a table: for secrets, which nobody needs back.

use serde_json::{Map, Value};

use crate::alias::{Counts, Hidden, SECRET};
use crate::detector::Detector;
use crate::finding::Finding;
use crate::hints::Hints;
use crate::json::{Columns, DEPTH, Standing};
use crate::kind::Kind;

impl Detector {
    /// Removes the findings of this detector from a text.
    pub fn redact(&self, text: &str) -> Hidden<String> {
        let mut counts = Counts::default();
        let shown = blacked_out(text, &self.find(text), &mut counts);
        Hidden { shown, counts }
    }

    /// Works like [`Detector::redact`] on the part of a text from `from` on, with the part before as context.
    pub fn redact_from(&self, text: &str, from: usize) -> Hidden<String> {
        let mut counts = Counts::default();
        let shown = blacked_out(
            text.get(from..).unwrap_or_default(),
            &self.find_from(text, from),
            &mut counts,
        );
        Hidden { shown, counts }
    }

    /// Returns the findings in the part of a text from `from` on, with offsets from there.
    pub(crate) fn find_from(&self, text: &str, from: usize) -> Vec<Finding> {
        let found = self.find(text).into_iter().filter(|one| one.end > from);
        let shifted = found.map(|one| Finding {
            start: one.start.max(from) - from,
            end: one.end - from,
            ..one
        });
        shifted.collect()
    }

    /// Removes the findings of this detector from a JSON value.
    pub fn redact_json(&self, value: Value, hints: &Hints) -> Hidden<Value> {
        let mut counts = Counts::default();
        let shown = self.redact_at(value, Standing::top(hints), DEPTH, &mut counts);
        Hidden { shown, counts }
    }

    fn redact_at(&self, value: Value, standing: Standing<'_>, depth: usize, counts: &mut Counts) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::Null;
        };
        match value {
            Value::String(text) => {
                let found = self.find_value(&text, standing.kind_of(&text));
                Value::String(if found.is_empty() {
                    text
                } else {
                    blacked_out(&text, &found, counts)
                })
            }
            Value::Number(number) => {
                let written = number.to_string();
                match self.find_number(&written, standing.kind_of_number(&written)) {
                    Some(finding) => {
                        counts.one(finding.kind.word());
                        Value::String(removed(finding.kind))
                    }
                    None => Value::Number(number),
                }
            }
            Value::Array(items) => {
                let heading = Columns::heading(&items);
                let standing = standing.list(heading.as_ref());
                let items = items.into_iter().enumerate();
                Value::Array(
                    items
                        .map(|(index, item)| self.redact_at(item, standing.item(index), depth, counts))
                        .collect(),
                )
            }
            Value::Object(members) => {
                let columns = Columns::beside(&members);
                let standing = standing.object(&members, columns.as_ref());
                let mut shown = Map::new();
                for (key, member) in members {
                    let under = standing.member(&key);
                    let found = self.find_value(&key, None);
                    let key = if found.is_empty() {
                        key
                    } else {
                        blacked_out(&key, &found, counts)
                    };
                    shown.insert(key, self.redact_at(member, under, depth, counts));
                }
                Value::Object(shown)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }
}

fn removed(kind: Kind) -> String {
    if kind == Kind::Secret {
        SECRET.to_owned()
    } else {
        format!("⟦{} removed⟧", kind.word())
    }
}

fn blacked_out(text: &str, found: &[Finding], counts: &mut Counts) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for one in found {
        counts.one(one.kind.word());
        shown.push_str(&text[done..one.start]);
        shown.push_str(&removed(one.kind));
        done = one.end;
    }
    shown.push_str(&text[done..]);
    shown
}

#[cfg(test)]
mod tests;
