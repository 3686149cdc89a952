//! Finds the values of a table again wherever they occur: a value that a key revealed once needs no key later.
//!
//! Only whole words and numbers match. A value that is written differently is another value.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};
use zeroize::Zeroizing;

use super::hide_reveal::TOO_DEEP_NOTICE;
use super::table::{AliasEntry, AliasOrigin, AliasValueForm, Aliases, allocated_bytes};
use super::value_index::ValueIndex;
use super::{FindingCounts, Masked};
use crate::finding::{Evidence, SensitiveSpan, resolve_overlaps};
use crate::json_context::MAX_DEPTH;
use crate::kind::{CustomKindName, SensitiveKind};
use crate::value::is_ordinary;

/// Values with fewer letters occur everywhere.
const MIN_LETTERS: usize = 3;
/// Values without letters and with fewer digits may be any count.
const MIN_DIGITS: usize = 5;
/// What a spelling takes in the index besides its letters, in nodes that are half full.
const SPELLING_BYTES: usize = 80;

/// The index of known values: built from a table, and extended as it grows.
#[derive(Default)]
pub(super) struct KnownValues {
    /// How many entries of the table are indexed.
    seen: usize,
    kinds: ValueIndex<SensitiveKind>,
}

impl KnownValues {
    /// Returns the most memory that the index takes for a value.
    pub(super) fn bytes_for(value: &str) -> usize {
        let quoted = |letter: char| match letter {
            '"' | '\\' => 2,
            _ if letter.is_ascii_control() => 6,
            _ => letter.len_utf8(),
        };
        let plain = |letter: char| {
            if letter.is_ascii() {
                quoted(letter)
            } else {
                6 * letter.len_utf16()
            }
        };
        let one = |length: usize| SPELLING_BYTES + allocated_bytes(length);
        let inner = value.chars().map(quoted).sum::<usize>();
        let mut all = one(value.len());
        if inner != value.len() {
            all += one(inner);
        }
        if !value.is_ascii() {
            all += one(value.chars().map(plain).sum());
        }
        all
    }

    fn add(&mut self, entry: &AliasEntry) {
        let value: &str = &entry.value;
        let Some(kind) = kind_of_word(&entry.word).filter(|kind| is_distinctive(value, *kind)) else {
            return;
        };
        for said in spellings(value) {
            self.kinds.add(Zeroizing::new(Box::from(said.as_str())), kind);
        }
    }

    /// Drops the entries from this index on.
    pub(super) fn truncate(&mut self, kept: usize) {
        if self.seen > kept {
            *self = KnownValues::default();
        }
    }

    /// Finds known values in a text. What a program says itself may be a guess: numbers can all be tried, and what is
    /// hidden would tell which of them exist.
    fn find(&self, text: &str, origin: AliasOrigin) -> Vec<SensitiveSpan> {
        let mut at = 0;
        let mut found = Vec::new();
        while let Some((start, end, kind)) = self.kinds.find_next(text, at) {
            let mut letters = text[start..end].chars();
            if origin == AliasOrigin::Answer || letters.any(char::is_alphabetic) {
                found.push(SensitiveSpan {
                    start,
                    end,
                    kind: *kind,
                    by: Evidence::Key,
                });
            }
            // Another value may begin inside this one and end after it.
            at = text.ceil_char_boundary(start + 1);
        }
        resolve_overlaps(text, found)
    }

    fn is_in_keys(&self, value: &Value, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match value {
            Value::Array(items) => items.iter().any(|item| self.is_in_keys(item, depth)),
            Value::Object(members) => members
                .iter()
                .any(|(key, member)| self.kinds.find_next(key, 0).is_some() || self.is_in_keys(member, depth)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
}

impl Aliases {
    /// Replaces every exact and whole occurrence of this table's values by its alias.
    pub fn mask_known(&mut self, text: String) -> Masked<String> {
        self.index_new_entries();
        let mut counts = FindingCounts::default();
        let shown = self.mask_text(text, &mut counts);
        Masked { shown, counts }
    }

    /// Does the same for a JSON value: strings, keys and whole numbers.
    pub fn mask_known_json(&mut self, value: Value) -> Masked<Value> {
        self.index_new_entries();
        let mut counts = FindingCounts::default();
        let shown = self.mask_value(value, MAX_DEPTH, &mut counts);
        Masked { shown, counts }
    }

    /// Whether keys of a JSON value are values of this table.
    pub fn knows_keys(&mut self, value: &Value) -> bool {
        self.index_new_entries();
        self.known.is_in_keys(value, MAX_DEPTH)
    }

    fn index_new_entries(&mut self) {
        for entry in self.entries.iter().skip(self.known.seen) {
            self.known.add(entry);
        }
        self.known.seen = self.entries.len();
    }

    fn mask_text(&mut self, text: String, counts: &mut FindingCounts) -> String {
        let found = self.known.find(&text, self.origin);
        if found.is_empty() {
            return text;
        }
        self.hide_found(&text, &found, counts)
    }

    fn mask_value(&mut self, value: Value, depth: usize, counts: &mut FindingCounts) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::String(TOO_DEEP_NOTICE.to_owned());
        };
        match value {
            Value::String(text) => Value::String(self.mask_text(text, counts)),
            Value::Number(number) => self.mask_number(number, counts),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.mask_value(item, depth, counts));
                Value::Array(items.collect())
            }
            Value::Object(members) => {
                let mut shown = Map::new();
                for (key, member) in members {
                    shown.insert(self.mask_text(key, counts), self.mask_value(member, depth, counts));
                }
                Value::Object(shown)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn mask_number(&mut self, number: Number, counts: &mut FindingCounts) -> Value {
        let written = number.to_string();
        let sought = self.origin == AliasOrigin::Answer && (number.is_i64() || number.is_u64());
        match self.known.kinds.get(&written).filter(|_| sought).copied() {
            Some(kind) => {
                let mut shown = String::new();
                self.write_alias(kind, AliasValueForm::Number, &written, &mut shown, counts);
                Value::String(shown)
            }
            None => Value::Number(number),
        }
    }
}

/// Returns the kind that an alias word stands for; text that only looked like an alias has none.
fn kind_of_word(word: &str) -> Option<SensitiveKind> {
    let ours = SensitiveKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    ours.or_else(|| CustomKindName::new(word).map(SensitiveKind::Custom))
}

/// Whether a value is distinctive enough to be searched for.
fn is_distinctive(value: &str, kind: SensitiveKind) -> bool {
    if !kind.is_structured() && !matches!(kind, SensitiveKind::Custom(_)) && is_ordinary(value) {
        return false;
    }
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let has_letters = value.chars().any(char::is_alphabetic);
    value.chars().nth(MIN_LETTERS - 1).is_some() && (has_letters || digits >= MIN_DIGITS)
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
