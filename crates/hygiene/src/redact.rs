//! Removes findings for good, without a table: for secrets, which nobody needs back.

use serde_json::{Map, Value};

use crate::alias::{FindingCounts, Masked, SECRET_REMOVED};
use crate::detector::Detector;
use crate::finding::SensitiveSpan;
use crate::hints::SchemaHints;
use crate::json_context::{JsonColumns, MAX_DEPTH, ValueContext};
use crate::kind::SensitiveKind;

impl Detector {
    /// Removes the findings of this detector from a text.
    pub fn redact(&self, text: &str) -> Masked<String> {
        let mut counts = FindingCounts::default();
        let shown = black_out(text, &self.find(text), &mut counts);
        Masked { shown, counts }
    }

    /// Works like [`Detector::redact`] on the part of a text from `from` on, with the part before as context.
    pub fn redact_from(&self, text: &str, from: usize) -> Masked<String> {
        let mut counts = FindingCounts::default();
        let shown = black_out(
            text.get(from..).unwrap_or_default(),
            &self.find_from(text, from),
            &mut counts,
        );
        Masked { shown, counts }
    }

    /// Returns the findings in the part of a text from `from` on, with offsets from there.
    pub(crate) fn find_from(&self, text: &str, from: usize) -> Vec<SensitiveSpan> {
        let found = self.find(text).into_iter().filter(|one| one.end > from);
        let shifted = found.map(|one| SensitiveSpan {
            start: one.start.max(from) - from,
            end: one.end - from,
            ..one
        });
        shifted.collect()
    }

    /// Removes the findings of this detector from a JSON value.
    pub fn redact_json(&self, value: Value, hints: &SchemaHints) -> Masked<Value> {
        let mut counts = FindingCounts::default();
        let shown = self.redact_value(value, ValueContext::root(hints), MAX_DEPTH, &mut counts);
        Masked { shown, counts }
    }

    fn redact_value(
        &self,
        value: Value,
        standing: ValueContext<'_>,
        depth: usize,
        counts: &mut FindingCounts,
    ) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::Null;
        };
        match value {
            Value::String(text) => {
                let found = self.find_value(&text, standing.text_kind(&text));
                Value::String(if found.is_empty() {
                    text
                } else {
                    black_out(&text, &found, counts)
                })
            }
            Value::Number(number) => {
                let written = number.to_string();
                match self.find_number(&written, standing.number_kind(&written)) {
                    Some(finding) => {
                        counts.increment(finding.kind.as_str());
                        Value::String(removed_notice(finding.kind))
                    }
                    None => Value::Number(number),
                }
            }
            Value::Array(items) => {
                let heading = JsonColumns::from_first_row(&items);
                let standing = standing.for_list(heading.as_ref());
                let items = items.into_iter().enumerate();
                Value::Array(
                    items
                        .map(|(index, item)| self.redact_value(item, standing.for_item(index), depth, counts))
                        .collect(),
                )
            }
            Value::Object(members) => {
                let columns = JsonColumns::from_members(&members);
                let standing = standing.for_object(&members, columns.as_ref());
                let mut shown = Map::new();
                for (key, member) in members {
                    let under = standing.for_member(&key);
                    let found = self.find_value(&key, None);
                    let key = if found.is_empty() {
                        key
                    } else {
                        black_out(&key, &found, counts)
                    };
                    shown.insert(key, self.redact_value(member, under, depth, counts));
                }
                Value::Object(shown)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }
}

fn removed_notice(kind: SensitiveKind) -> String {
    if kind == SensitiveKind::Secret {
        SECRET_REMOVED.to_owned()
    } else {
        format!("⟦{} removed⟧", kind.as_str())
    }
}

fn black_out(text: &str, found: &[SensitiveSpan], counts: &mut FindingCounts) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for one in found {
        counts.increment(one.kind.as_str());
        shown.push_str(&text[done..one.start]);
        shown.push_str(&removed_notice(one.kind));
        done = one.end;
    }
    shown.push_str(&text[done..]);
    shown
}

#[cfg(test)]
mod tests;
