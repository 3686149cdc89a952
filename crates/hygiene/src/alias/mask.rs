//! Masks values that a tool was given and repeats unchanged, where nothing else marks them.

use serde_json::Value;

use super::index::Index;
use super::table::{Aliases, Entry, Form};
use super::write::put;

/// Shorter values occur everywhere.
const SHORTEST: usize = 3;

impl Aliases {
    /// Replaces the exact values of these entries in a JSON value by their aliases: a tool that was given a value may
    /// repeat it where nothing marks it. Only whole words and whole numbers match.
    pub fn mask_json(&self, value: Value, known: &[usize]) -> Value {
        let entries = known.iter().filter_map(|index| self.entries.get(*index));
        let mut entries: Vec<&Entry> = entries.filter(|entry| entry.value.len() >= SHORTEST).collect();
        if entries.is_empty() {
            return value;
        }
        // If a text and a number have the same value, the number wins, because it may occur in a text too.
        entries.sort_by_key(|entry| entry.form == Form::Text);
        let mut index = Index::default();
        for entry in entries {
            index.add(entry.value.clone(), entry);
        }
        masked(value, &index)
    }
}

fn masked(value: Value, entries: &Index<&Entry>) -> Value {
    match value {
        Value::String(text) => Value::String(mask(text, entries)),
        Value::Number(number) => match entries.get(&number.to_string()) {
            Some(entry) => {
                let mut alias = String::new();
                put(&entry.word, entry.code, &mut alias);
                Value::String(alias)
            }
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(|item| masked(item, entries)).collect(),
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(key, member)| (mask(key, entries), masked(member, entries)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) => value,
    }
}

fn mask(text: String, entries: &Index<&Entry>) -> String {
    let mut shown = String::new();
    let mut done = 0;
    while let Some((start, end, entry)) = entries.next_in(&text, done) {
        shown.push_str(&text[done..start]);
        put(&entry.word, entry.code, &mut shown);
        done = end;
    }
    if done == 0 {
        return text;
    }
    shown.push_str(&text[done..]);
    shown
}
