//! Finds the values of a table again wherever they occur: a value that a key revealed once needs no key later.
//!
//! Only whole words and numbers match. A value that is written differently is another value.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use zeroize::Zeroizing;

use super::index::Index;
use super::table::{Aliases, Entry, Form};
use super::write::TOO_DEEP;
use super::{Counts, Hidden};
use crate::finding::{Evidence, Finding, resolve};
use crate::json::DEPTH;
use crate::kind::{Kind, Word};
use crate::value::is_ordinary;

/// Values with fewer letters occur everywhere.
const LETTERS: usize = 3;
/// Values without letters and with fewer digits may be any count.
const DIGITS: usize = 5;

/// The index of known values: built from a table, and extended as it grows.
#[derive(Default)]
pub(super) struct Known {
    /// How many entries of the table are indexed.
    seen: usize,
    kinds: Index<Kind>,
}

impl Known {
    fn add(&mut self, entry: &Entry) {
        let value = entry.value.as_str();
        let Some(kind) = kind(&entry.word).filter(|kind| is_telling(value, *kind)) else {
            return;
        };
        for said in spellings(value) {
            self.kinds.add(said, kind);
        }
    }

    /// Drops the entries from this index on.
    pub(super) fn forget_from(&mut self, kept: usize) {
        if self.seen > kept {
            *self = Known::default();
        }
    }

    fn find(&self, text: &str) -> Vec<Finding> {
        let mut at = 0;
        let mut found = Vec::new();
        while let Some((start, end, kind)) = self.kinds.next_in(text, at) {
            found.push(Finding {
                start,
                end,
                kind: *kind,
                by: Evidence::Key,
            });
            // Another value may begin inside this one and end after it.
            at = text.ceil_char_boundary(start + 1);
        }
        resolve(text, found)
    }

    fn is_in_keys(&self, value: &Value, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match value {
            Value::Array(items) => items.iter().any(|item| self.is_in_keys(item, depth)),
            Value::Object(members) => members
                .iter()
                .any(|(key, member)| self.kinds.next_in(key, 0).is_some() || self.is_in_keys(member, depth)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
}

impl Aliases {
    /// Replaces every exact and whole occurrence of this table's values by its alias.
    pub fn mask_known(&mut self, text: String) -> Hidden<String> {
        self.learn();
        let mut counts = Counts::default();
        let shown = self.masked(text, &mut counts);
        Hidden { shown, counts }
    }

    /// Does the same for a JSON value: strings, keys and whole numbers.
    pub fn mask_known_json(&mut self, value: Value) -> Hidden<Value> {
        self.learn();
        let mut counts = Counts::default();
        let shown = self.masked_json(value, DEPTH, &mut counts);
        Hidden { shown, counts }
    }

    /// Whether keys of a JSON value are values of this table.
    pub fn knows_keys(&mut self, value: &Value) -> bool {
        self.learn();
        self.known.is_in_keys(value, DEPTH)
    }

    fn learn(&mut self) {
        for entry in self.entries.iter().skip(self.known.seen) {
            self.known.add(entry);
        }
        self.known.seen = self.entries.len();
    }

    fn masked(&mut self, text: String, counts: &mut Counts) -> String {
        let found = self.known.find(&text);
        if found.is_empty() {
            return text;
        }
        self.hide_found(&text, &found, counts)
    }

    fn masked_json(&mut self, value: Value, depth: usize, counts: &mut Counts) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::String(TOO_DEEP.to_owned());
        };
        match value {
            Value::String(text) => Value::String(self.masked(text, counts)),
            Value::Number(number) => self.masked_number(number, counts),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.masked_json(item, depth, counts));
                Value::Array(items.collect())
            }
            Value::Object(members) => {
                let mut shown = Map::new();
                for (key, member) in members {
                    shown.insert(self.masked(key, counts), self.masked_json(member, depth, counts));
                }
                Value::Object(shown)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn masked_number(&mut self, number: Number, counts: &mut Counts) -> Value {
        let written = number.to_string();
        let whole = number.is_i64() || number.is_u64();
        match self.known.kinds.get(&written).filter(|_| whole).copied() {
            Some(kind) => {
                let mut shown = String::new();
                self.write_alias(kind, Form::Number, &written, &mut shown, counts);
                Value::String(shown)
            }
            None => Value::Number(number),
        }
    }
}

/// Returns the kind that an alias word stands for; text that only looked like an alias has none.
fn kind(word: &str) -> Option<Kind> {
    let ours = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    ours.or_else(|| Word::new(word).map(Kind::Own))
}

/// Whether a value is distinctive enough to be searched for.
fn is_telling(value: &str, kind: Kind) -> bool {
    if !kind.is_structured() && !matches!(kind, Kind::Own(_)) && is_ordinary(value) {
        return false;
    }
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let has_letters = value.chars().any(char::is_alphabetic);
    value.chars().nth(LETTERS - 1).is_some() && (has_letters || digits >= DIGITS)
}

/// Returns a value as it is, and as programs print it in JSON.
fn spellings(value: &str) -> Vec<Zeroizing<String>> {
    let mut all = vec![Zeroizing::new(value.to_owned())];
    let quoted = Zeroizing::new(Value::from(value).to_string());
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    if inner != value {
        all.push(Zeroizing::new(inner.to_owned()));
    }
    if !inner.is_ascii() {
        let mut plain = Zeroizing::new(String::with_capacity(inner.len() * 3));
        for letter in inner.chars() {
            if letter.is_ascii() {
                plain.push(letter);
            } else {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _infallible = write!(plain, "\\u{unit:04x}");
                }
            }
        }
        all.push(plain);
    }
    all
}

#[cfg(test)]
mod tests;
