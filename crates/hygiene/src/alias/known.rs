//! Values that a table holds, found again wherever they stand: what a key told once needs no key any more.
//!
//! Only whole: no word in a longer word, no number in a longer number. A value that is told in other words is another.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;

use serde_json::{Map, Number, Value};
use zeroize::Zeroizing;

use super::table::{Aliases, Entry, Form};
use super::write::TOO_DEEP;
use super::{Counts, Hidden};
use crate::finding::{Evidence, Finding, resolve};
use crate::json::DEPTH;
use crate::kind::{Kind, Word};

/// Values with fewer letters stand everywhere.
const LETTERS: usize = 3;
/// Values without letters that have fewer digits may count anything.
const DIGITS: usize = 5;
/// Values of one beginning that are tried at one place.
const TRIES: usize = 64;
/// Bits that tell whether a value begins so.
const BITS: u32 = 1 << 16;

/// What to look for: made from a table, and added to as it grows.
#[derive(Default)]
pub(super) struct Known {
    /// How many entries of the table are in here.
    seen: usize,
    kinds: BTreeMap<Said, Kind>,
    begins: Vec<u64>,
    longest: usize,
}

/// A value in order of its letters, wiped when dropped.
struct Said(Zeroizing<String>);

impl Borrow<str> for Said {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Said {
    fn eq(&self, other: &Said) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Said {}

impl PartialOrd for Said {
    fn partial_cmp(&self, other: &Said) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Said {
    fn cmp(&self, other: &Said) -> std::cmp::Ordering {
        self.0.as_str().cmp(other.0.as_str())
    }
}

impl Known {
    fn add(&mut self, entry: &Entry) {
        let value = entry.value.as_str();
        let Some(kind) = kind(&entry.word).filter(|_| is_telling(value)) else {
            return;
        };
        self.begins.resize((BITS / u64::BITS) as usize, 0);
        for said in spellings(value) {
            if let Some((word, bit)) = begin(said.as_bytes())
                && let Some(bits) = self.begins.get_mut(word)
            {
                *bits |= bit;
            }
            self.longest = self.longest.max(said.len());
            self.kinds.entry(Said(said)).or_insert(kind);
        }
    }

    /// Entries from there on are no more.
    pub(super) fn forget_from(&mut self, kept: usize) {
        if self.seen > kept {
            *self = Known::default();
        }
    }

    fn find(&self, text: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.kinds.is_empty() {
            return found;
        }
        for (at, letter) in text.char_indices() {
            let Some(rest) = text.get(at..).filter(|rest| self.may_begin(rest.as_bytes())) else {
                continue;
            };
            let before = text.get(..at).unwrap_or_default();
            if is_joined(before.chars().next_back(), Some(letter)) || is_fraction(before, rest) {
                continue;
            }
            if let Some((length, kind)) = self.longest_at(rest) {
                found.push(Finding {
                    start: at,
                    end: at + length,
                    kind,
                    by: Evidence::Key,
                });
            }
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
                .any(|(key, member)| !self.find(key).is_empty() || self.is_in_keys(member, depth)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    fn may_begin(&self, rest: &[u8]) -> bool {
        begin(rest).is_some_and(|(word, bit)| self.begins.get(word).is_some_and(|bits| bits & bit != 0))
    }

    /// The longest value that a text begins with. Of all values up to the text in order, the last has most in common with it.
    fn longest_at(&self, rest: &str) -> Option<(usize, Kind)> {
        let mut most = rest.floor_char_boundary(self.longest);
        for _ in 0..TRIES {
            let up_to: &str = rest.get(..most)?;
            let range = (Bound::Unbounded, Bound::Included(up_to));
            let (said, kind) = self.kinds.range::<str, _>(range).next_back()?;
            let said = said.0.as_str();
            let same = said.bytes().zip(up_to.bytes()).take_while(|(one, other)| one == other);
            let same = same.count();
            if same == said.len() {
                if ends(rest, same) {
                    return Some((same, *kind));
                }
                most = rest.floor_char_boundary(same.checked_sub(1)?);
            } else {
                most = rest.floor_char_boundary(same);
            }
        }
        None
    }
}

impl Aliases {
    /// A text in which aliases stand wherever a value of this table stood, whole and to the letter.
    pub fn mask_known(&mut self, text: String) -> Hidden<String> {
        self.learn();
        let mut counts = Counts::default();
        let shown = self.masked(text, &mut counts);
        Hidden { shown, counts }
    }

    /// The same for a JSON value: strings, keys and whole numbers.
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
        match self.known.kinds.get(written.as_str()).filter(|_| whole).copied() {
            Some(kind) => {
                let mut shown = String::new();
                self.stand_in(kind, Form::Number, &written, &mut shown, counts);
                Value::String(shown)
            }
            None => Value::Number(number),
        }
    }
}

/// The kind that a word of aliases means; what only looked like an alias has none.
fn kind(word: &str) -> Option<Kind> {
    let ours = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    ours.or_else(|| Word::new(word).map(Kind::Own))
}

/// Whether a value can be told from what stands everywhere.
fn is_telling(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let has_letters = value.chars().any(char::is_alphabetic);
    value.chars().nth(LETTERS - 1).is_some() && (has_letters || digits >= DIGITS)
}

/// A value as it is, and as programs print it in JSON.
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
                    // Writing to a string does not fail.
                    let _infallible = write!(plain, "\\u{unit:04x}");
                }
            }
        }
        all.push(plain);
    }
    all
}

/// Where the bit of a beginning is.
fn begin(bytes: &[u8]) -> Option<(usize, u64)> {
    let [first, second, third, ..] = bytes else { return None };
    let three = u32::from(*first) << 16 | u32::from(*second) << 8 | u32::from(*third);
    let bit = three.wrapping_mul(0x9e37_79b1) >> (u32::BITS - BITS.ilog2());
    Some(((bit / u64::BITS) as usize, 1 << (bit % u64::BITS)))
}

/// Whether two letters are of one word or number.
fn is_joined(one: Option<char>, next: Option<char>) -> bool {
    one.is_some_and(is_spaced) && next.is_some_and(is_spaced)
}

/// Letters and digits of scripts that put something between words.
fn is_spaced(letter: char) -> bool {
    letter.is_alphanumeric() && letter < '\u{2e80}' && !('\u{e00}'..'\u{f00}').contains(&letter)
}

/// Whether what comes next are the decimals of a number.
fn is_fraction(before: &str, rest: &str) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    rest.starts_with(digit) && before.strip_suffix('.').is_some_and(|number| number.ends_with(digit))
}

/// Whether a word or number ends here.
fn ends(rest: &str, end: usize) -> bool {
    let (value, after) = rest.split_at(end);
    !is_joined(value.chars().next_back(), after.chars().next())
        && !after
            .strip_prefix('.')
            .is_some_and(|decimals| is_fraction(&rest[..=end], decimals))
}

#[cfg(test)]
mod tests;
