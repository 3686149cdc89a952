//! Hides and reveals: replaces personal data in texts and JSON by aliases, and aliases by their values.

use serde_json::{Map, Number, Value};

use super::recognise::{Seen, recognise};
use super::table::{Aliases, Code, Form};
use super::{Counts, Hidden, Invented, LITERAL, SECRET};
use crate::detector::Detector;
use crate::finding::{Finding, trimmed};
use crate::hints::Hints;
use crate::json::{Columns, DEPTH, Standing};
use crate::kind::Kind;

/// Replaces a JSON value that is nested too deeply to be checked.
pub(super) const TOO_DEEP: &str = "⟦ringfence: nested too deeply, left out⟧";

/// Shortest match of a custom kind that gets an alias. There are so few shorter ones that a program could have each
/// of them aliased, and then read any text letter by letter.
const MIN_OWN_LENGTH: usize = 4;

impl Aliases {
    /// Replaces the personal data in a text by aliases, and removes secrets. Aliases of this table stay as they are;
    /// text that only looks like an alias gets one itself, so that foreign text is never taken for an alias of this
    /// table.
    pub fn hide(&mut self, detector: &Detector, text: &str) -> Hidden<String> {
        let found = detector.find(text);
        let mut counts = Counts::default();
        let shown = self.hide_found(text, &found, &mut counts);
        Hidden { shown, counts }
    }

    /// Works like [`Aliases::hide`] on the part of a text from `from` on, with the part before as context.
    pub fn hide_from(&mut self, detector: &Detector, text: &str, from: usize) -> Hidden<String> {
        let mut counts = Counts::default();
        let rest = text.get(from..).unwrap_or_default();
        let found = detector.find_from(text, from);
        let shown = self.hide_found(rest, &found, &mut counts);
        Hidden { shown, counts }
    }

    /// Hides personal data in a JSON value: in strings, keys, and numbers, which become strings.
    pub fn hide_json(&mut self, detector: &Detector, value: Value, hints: &Hints) -> Hidden<Value> {
        let mut counts = Counts::default();
        let mut hiding = Hiding {
            aliases: self,
            detector,
            counts: &mut counts,
        };
        let shown = hiding.value(value, Standing::top(hints), DEPTH);
        Hidden { shown, counts }
    }

    /// Replaces aliases by their values, also aliases with changed case or spacing. An unknown alias is an error.
    pub fn reveal(&self, text: &str) -> Result<String, Invented> {
        let seen = recognise(self, text);
        match seen.iter().find(|one| one.entry.is_none()) {
            Some(one) => Err(Invented {
                alias: text[one.start..one.end].to_owned(),
            }),
            None => Ok(self.reveal_seen(text, &seen)),
        }
    }

    /// Returns the entries whose aliases a JSON value contains.
    pub fn known_json(&self, value: &Value) -> Vec<usize> {
        let mut known = Vec::new();
        self.collect(value, DEPTH, &mut known);
        known.sort_unstable();
        known.dedup();
        known
    }

    fn collect(&self, value: &Value, depth: usize, known: &mut Vec<usize>) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::String(text) => known.extend(recognise(self, text).iter().filter_map(|one| one.entry)),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, depth, known)),
            Value::Object(members) => members.iter().for_each(|(key, member)| {
                known.extend(recognise(self, key).iter().filter_map(|one| one.entry));
                self.collect(member, depth, known);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns how many aliases a JSON value contains. An unknown alias is an error.
    pub fn count_json(&self, value: &Value) -> Result<u64, Invented> {
        self.count_at(value, DEPTH)
    }

    fn count_at(&self, value: &Value, depth: usize) -> Result<u64, Invented> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(0);
        };
        match value {
            Value::String(text) => self.count(text),
            Value::Array(items) => items.iter().map(|item| self.count_at(item, depth)).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(key, member)| Ok(self.count(key)? + self.count_at(member, depth)?))
                .sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(0),
        }
    }

    fn count(&self, text: &str) -> Result<u64, Invented> {
        let seen = recognise(self, text);
        match seen.iter().find(|one| one.entry.is_none()) {
            Some(one) => Err(Invented {
                alias: text[one.start..one.end].to_owned(),
            }),
            None => Ok(seen.len() as u64),
        }
    }

    /// Replaces aliases by their values and leaves unknown aliases unchanged, for the owner of the data.
    pub fn reveal_known(&self, text: &str) -> String {
        self.reveal_seen(text, &recognise(self, text))
    }

    /// Reveals the known aliases in a JSON value.
    pub fn reveal_known_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => match self.number(&text) {
                Some(number) => Value::Number(number),
                None => Value::String(self.reveal_known(&text)),
            },
            Value::Array(items) => items.into_iter().map(|item| self.reveal_known_json(item)).collect(),
            Value::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(key, member)| (self.reveal_known(&key), self.reveal_known_json(member)))
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// Works like [`Aliases::reveal`] for a JSON value; hidden numbers become numbers again.
    pub fn reveal_json(&self, value: Value) -> Result<Value, Invented> {
        self.reveal_at(value, DEPTH)
    }

    fn reveal_at(&self, value: Value, depth: usize) -> Result<Value, Invented> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(value);
        };
        Ok(match value {
            Value::String(text) => match self.number(&text) {
                Some(number) => Value::Number(number),
                None => Value::String(self.reveal(&text)?),
            },
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.reveal_at(item, depth));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let mut revealed = Map::new();
                for (key, member) in members {
                    revealed.insert(self.reveal(&key)?, self.reveal_at(member, depth)?);
                }
                Value::Object(revealed)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        })
    }

    /// Returns the number that a string stands for, if it is exactly the alias of one.
    fn number(&self, text: &str) -> Option<Number> {
        if text.len() > 64 {
            return None;
        }
        let seen = recognise(self, text);
        let [one] = seen.as_slice() else { return None };
        let entry = self
            .entries
            .get(one.entry?)
            .filter(|entry| entry.form == Form::Number)?;
        let rest = text[..one.start].trim().is_empty() && text[one.end..].trim().is_empty();
        if !rest {
            return None;
        }
        let value = entry.value.as_str();
        let whole = value.parse::<u64>().map(Number::from);
        let whole = whole.or_else(|_| value.parse::<i64>().map(Number::from));
        whole.ok().or_else(|| Number::from_f64(value.parse().ok()?))
    }

    fn reveal_seen(&self, text: &str, seen: &[Seen]) -> String {
        let mut revealed = String::with_capacity(text.len());
        let mut done = 0;
        for one in seen {
            let Some(entry) = one.entry.and_then(|index| self.entries.get(index)) else {
                continue;
            };
            revealed.push_str(&text[done..one.start]);
            if one.encoded {
                encode(&entry.value, &mut revealed);
            } else {
                revealed.push_str(&entry.value);
            }
            done = one.end;
        }
        revealed.push_str(&text[done..]);
        revealed
    }

    /// Hides these findings in a text.
    pub(super) fn hide_found(&mut self, text: &str, found: &[Finding], counts: &mut Counts) -> String {
        let seen = recognise(self, text);
        if found.is_empty() && seen.is_empty() {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let mut done = 0;
        let mut found = uncovered(text, found, &seen).into_iter().peekable();
        for alias in &seen {
            while let Some(one) = found.next_if(|one| one.start < alias.start) {
                shown.push_str(&text[done..one.start]);
                self.write_alias(one.kind, Form::Text, &text[one.start..one.end], &mut shown, counts);
                done = one.end;
            }
            shown.push_str(&text[done..alias.start]);
            self.pass(&text[alias.start..alias.end], alias, &mut shown);
            done = alias.end;
        }
        for one in found {
            shown.push_str(&text[done..one.start]);
            self.write_alias(one.kind, Form::Text, &text[one.start..one.end], &mut shown, counts);
            done = one.end;
        }
        shown.push_str(&text[done..]);
        shown
    }

    /// Writes an alias that the text contains: a known one stays, an unknown one gets an alias itself.
    fn pass(&mut self, written: &str, seen: &Seen, shown: &mut String) {
        if seen.entry.is_some() {
            shown.push_str(written);
        } else {
            self.write(LITERAL, Form::Text, written, shown);
        }
    }

    pub(super) fn write_alias(&mut self, kind: Kind, form: Form, value: &str, shown: &mut String, counts: &mut Counts) {
        counts.one(kind.word());
        if kind == Kind::Secret {
            shown.push_str(SECRET);
        } else if matches!(kind, Kind::Own(_)) && value.chars().count() < MIN_OWN_LENGTH {
            put_hidden(kind.word(), shown);
        } else {
            self.write(kind.word(), form, value, shown);
        }
    }

    fn write(&mut self, word: &str, form: Form, value: &str, shown: &mut String) {
        let Some(code) = self.code(word, form, value) else {
            put_hidden(word, shown);
            return;
        };
        put(word, code, shown);
    }
}

/// Writes a notice that something is hidden for good.
fn put_hidden(word: &str, shown: &mut String) {
    shown.push('⟦');
    shown.push_str(word);
    shown.push_str(" hidden⟧");
}

/// Returns the parts of findings that no alias covers, without the punctuation at their ends.
fn uncovered(text: &str, found: &[Finding], seen: &[Seen]) -> Vec<Finding> {
    let mut parts = Vec::with_capacity(found.len());
    for one in found {
        let mut start = one.start;
        let first = seen.partition_point(|alias| alias.end <= one.start);
        let within = seen[first..].iter().take_while(|alias| alias.start < one.end);
        let gaps = within.map(|alias| (alias.start, alias.end)).chain([(one.end, one.end)]);
        for (end, next) in gaps {
            if start < end
                && let Some((start, end)) = trimmed(text, start, end, *one)
            {
                parts.push(Finding { start, end, ..*one });
            }
            start = next;
        }
    }
    parts
}

/// Writes an alias in its usual brackets.
pub(super) fn put(word: &str, code: Code, shown: &mut String) {
    shown.push('‹');
    shown.push_str(word);
    shown.push(':');
    shown.extend(code.iter().map(|letter| char::from(*letter)));
    shown.push('›');
}

/// Walks over JSON and hides personal data.
struct Hiding<'a> {
    aliases: &'a mut Aliases,
    detector: &'a Detector,
    counts: &'a mut Counts,
}

impl Hiding<'_> {
    fn value(&mut self, value: Value, standing: Standing<'_>, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::String(TOO_DEEP.to_owned());
        };
        match value {
            Value::String(text) => {
                let found = self.detector.find_value(&text, standing.kind_of(&text));
                Value::String(self.aliases.hide_found(&text, &found, self.counts))
            }
            Value::Number(number) => self.number(number, standing),
            Value::Array(items) => {
                let heading = Columns::heading(&items);
                let standing = standing.list(heading.as_ref());
                let items = items.into_iter().enumerate();
                Value::Array(
                    items
                        .map(|(index, item)| self.value(item, standing.item(index), depth))
                        .collect(),
                )
            }
            Value::Object(members) => {
                let columns = Columns::beside(&members);
                let standing = standing.object(&members, columns.as_ref());
                let mut hidden = Map::new();
                for (key, member) in members {
                    let under = standing.member(&key);
                    let found = self.detector.find_value(&key, None);
                    let key = self.aliases.hide_found(&key, &found, self.counts);
                    hidden.insert(key, self.value(member, under, depth));
                }
                Value::Object(hidden)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn number(&mut self, number: Number, standing: Standing<'_>) -> Value {
        let written = number.to_string();
        let found = self.detector.find_number(&written, standing.kind_of_number(&written));
        match found {
            Some(finding) => {
                let mut shown = String::new();
                self.aliases
                    .write_alias(finding.kind, Form::Number, &written, &mut shown, self.counts);
                Value::String(shown)
            }
            None => Value::Number(number),
        }
    }
}

/// Percent-encodes a value for a URL.
fn encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for half in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(half)]));
            }
        }
    }
}
