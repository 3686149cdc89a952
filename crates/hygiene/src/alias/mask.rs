//! What was told to a tool and is said again, to the letter, where nothing tells what it is: aliases take its place.

use serde_json::Value;

use super::table::{Aliases, Entry, Form};
use super::write::put;

/// Values that are shorter stand everywhere.
const SHORTEST: usize = 3;

impl Aliases {
    /// A JSON value in which aliases stand wherever the values of these entries stood, to the letter: whoever was given a
    /// value may say it again where nothing tells what it is. Only whole words and whole numbers are taken for one.
    pub fn mask_json(&self, value: Value, known: &[usize]) -> Value {
        let entries = known.iter().filter_map(|index| self.entries.get(*index));
        let mut entries: Vec<&Entry> = entries.filter(|entry| entry.value.len() >= SHORTEST).collect();
        // The longest first: a name is masked whole before the first name in it is looked for.
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.value.len()), entry.form == Form::Text));
        masked(value, &entries)
    }
}

fn masked(value: Value, entries: &[&Entry]) -> Value {
    match value {
        Value::String(text) => Value::String(mask(text, entries)),
        Value::Number(number) => {
            let written = number.to_string();
            match entries.iter().find(|entry| entry.value.as_str() == written) {
                Some(entry) => {
                    let mut alias = String::new();
                    put(&entry.word, entry.code, &mut alias);
                    Value::String(alias)
                }
                None => Value::Number(number),
            }
        }
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

fn mask(text: String, entries: &[&Entry]) -> String {
    let mut places: Vec<(usize, usize, &Entry)> = Vec::new();
    for entry in entries {
        for (start, value) in text.match_indices(entry.value.as_str()) {
            let end = start + value.len();
            let index = places.partition_point(|place| place.1 <= start);
            let free = places.get(index).is_none_or(|place| end <= place.0);
            if free && is_whole(&text, start, end) {
                places.insert(index, (start, end, entry));
            }
        }
    }
    if places.is_empty() {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end, entry) in places {
        shown.push_str(&text[done..start]);
        put(&entry.word, entry.code, &mut shown);
        done = end;
    }
    shown.push_str(&text[done..]);
    shown
}

/// Whether a stretch is not part of a longer word or number: `Ann` is not in `Annual`.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let (before, after) = (text[..start].chars().next_back(), text[end..].chars().next());
    let stretch = &text[start..end];
    let goes_on = |outer: Option<char>, inner: Option<char>| {
        outer
            .zip(inner)
            .is_some_and(|(outer, inner)| is_joined(outer) && is_joined(inner))
    };
    !goes_on(before, stretch.chars().next()) && !goes_on(after, stretch.chars().next_back())
}

/// Letters that make one word with the next. Scripts that put no space between words have none.
fn is_joined(letter: char) -> bool {
    letter.is_alphanumeric() && !matches!(letter, '\u{e00}'..='\u{10ff}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..)
}
