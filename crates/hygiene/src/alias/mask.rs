//! Masks values that a tool was given and repeats unchanged, where nothing else marks them.

use serde_json::Value;

use super::hide_reveal::write_alias_text;
use super::table::{AliasEntry, AliasValueForm, Aliases};
use super::value_index::ValueIndex;

/// Shorter values occur everywhere.
const MIN_VALUE_BYTES: usize = 3;

impl Aliases {
    /// Replaces the exact values of these entries in a JSON value by their aliases: a tool that was given a value may
    /// repeat it where nothing marks it. Only whole words and whole numbers match.
    pub fn mask_json(&self, value: Value, known: &[usize]) -> Value {
        let entries = known.iter().filter_map(|index| self.entries.get(*index));
        let mut entries: Vec<&AliasEntry> = entries.filter(|entry| entry.value.len() >= MIN_VALUE_BYTES).collect();
        if entries.is_empty() {
            return value;
        }
        // If a text and a number have the same value, the number wins, because it may occur in a text too.
        entries.sort_by_key(|entry| entry.form == AliasValueForm::Text);
        let mut index = ValueIndex::default();
        for entry in entries {
            index.add(entry.value.clone(), entry);
        }
        mask_value(value, &index)
    }
}

fn mask_value(value: Value, entries: &ValueIndex<&AliasEntry>) -> Value {
    match value {
        Value::String(text) => Value::String(mask_string(text, entries)),
        Value::Number(number) => match entries.get(&number.to_string()) {
            Some(entry) => {
                let mut alias = String::new();
                write_alias_text(&entry.word, entry.code, &mut alias);
                Value::String(alias)
            }
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(|item| mask_value(item, entries)).collect(),
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(key, member)| (mask_string(key, entries), mask_value(member, entries)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) => value,
    }
}

fn mask_string(text: String, entries: &ValueIndex<&AliasEntry>) -> String {
    let mut shown = String::new();
    let mut done = 0;
    while let Some((start, end, entry)) = entries.find_next(&text, done) {
        shown.push_str(&text[done..start]);
        write_alias_text(&entry.word, entry.code, &mut shown);
        done = end;
    }
    if done == 0 {
        return text;
    }
    shown.push_str(&text[done..]);
    shown
}
