//! Hides and reveals: replaces personal data in texts and JSON by aliases, and aliases by their values.

use serde_json::{Map, Number, Value};

use super::recognise::{RecognisedAlias, recognise};
use super::table::{AliasCode, AliasValueForm, Aliases};
use super::{FindingCounts, LITERAL_WORD, Masked, SECRET_REMOVED, UnknownAlias};
use crate::detector::Detector;
use crate::finding::{SensitiveSpan, trim_punctuation};
use crate::hints::SchemaHints;
use crate::json_context::{JsonColumns, MAX_DEPTH, ValueContext};
use crate::kind::SensitiveKind;

/// Replaces a JSON value that is nested too deeply to be checked.
pub(super) const TOO_DEEP_NOTICE: &str = "⟦ringfence: nested too deeply, left out⟧";

/// Shortest match of a custom kind that gets an alias. There are so few shorter ones that a program could have each
/// of them aliased, and then read any text letter by letter.
const MIN_CUSTOM_LENGTH: usize = 4;

impl Aliases {
    /// Replaces the personal data in a text by aliases, and removes secrets. Aliases of this table stay as they are;
    /// text that only looks like an alias gets one itself, so that foreign text is never taken for an alias of this
    /// table.
    pub fn hide(&mut self, detector: &Detector, text: &str) -> Masked<String> {
        let found = detector.find(text);
        let mut counts = FindingCounts::default();
        let shown = self.hide_found(text, &found, &mut counts);
        Masked { shown, counts }
    }

    /// Works like [`Aliases::hide`] on the part of a text from `from` on, with the part before as context.
    pub fn hide_from(&mut self, detector: &Detector, text: &str, from: usize) -> Masked<String> {
        let mut counts = FindingCounts::default();
        let rest = text.get(from..).unwrap_or_default();
        let found = detector.find_from(text, from);
        let shown = self.hide_found(rest, &found, &mut counts);
        Masked { shown, counts }
    }

    /// Hides personal data in a JSON value: in strings, keys, and numbers, which become strings.
    pub fn hide_json(&mut self, detector: &Detector, value: Value, hints: &SchemaHints) -> Masked<Value> {
        let mut counts = FindingCounts::default();
        let mut hiding = JsonHider {
            aliases: self,
            detector,
            counts: &mut counts,
        };
        let shown = hiding.hide_value(value, ValueContext::root(hints), MAX_DEPTH);
        Masked { shown, counts }
    }

    /// Replaces aliases by their values, also aliases with changed case or spacing. An unknown alias is an error.
    pub fn reveal(&self, text: &str) -> Result<String, UnknownAlias> {
        let seen = recognise(self, text);
        match seen.iter().find(|one| one.entry.is_none()) {
            Some(one) => Err(UnknownAlias {
                alias: text[one.start..one.end].to_owned(),
            }),
            None => Ok(self.reveal_recognised(text, &seen)),
        }
    }

    /// Returns the entries whose aliases a JSON value contains.
    pub fn known_json(&self, value: &Value) -> Vec<usize> {
        let mut known = Vec::new();
        self.collect_known(value, MAX_DEPTH, &mut known);
        known.sort_unstable();
        known.dedup();
        known
    }

    fn collect_known(&self, value: &Value, depth: usize, known: &mut Vec<usize>) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::String(text) => known.extend(recognise(self, text).iter().filter_map(|one| one.entry)),
            Value::Array(items) => items.iter().for_each(|item| self.collect_known(item, depth, known)),
            Value::Object(members) => members.iter().for_each(|(key, member)| {
                known.extend(recognise(self, key).iter().filter_map(|one| one.entry));
                self.collect_known(member, depth, known);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns how many aliases a JSON value contains. An unknown alias is an error.
    pub fn count_json(&self, value: &Value) -> Result<u64, UnknownAlias> {
        self.count_at(value, MAX_DEPTH)
    }

    fn count_at(&self, value: &Value, depth: usize) -> Result<u64, UnknownAlias> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(0);
        };
        match value {
            Value::String(text) => self.count_text(text),
            Value::Array(items) => items.iter().map(|item| self.count_at(item, depth)).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(key, member)| Ok(self.count_text(key)? + self.count_at(member, depth)?))
                .sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(0),
        }
    }

    fn count_text(&self, text: &str) -> Result<u64, UnknownAlias> {
        let seen = recognise(self, text);
        match seen.iter().find(|one| one.entry.is_none()) {
            Some(one) => Err(UnknownAlias {
                alias: text[one.start..one.end].to_owned(),
            }),
            None => Ok(seen.len() as u64),
        }
    }

    /// Replaces aliases by their values and leaves unknown aliases unchanged, for the owner of the data.
    pub fn reveal_known(&self, text: &str) -> String {
        self.reveal_recognised(text, &recognise(self, text))
    }

    /// Reveals the known aliases in a JSON value.
    pub fn reveal_known_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => match self.reveal_number(&text) {
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
    pub fn reveal_json(&self, value: Value) -> Result<Value, UnknownAlias> {
        self.reveal_at(value, MAX_DEPTH)
    }

    fn reveal_at(&self, value: Value, depth: usize) -> Result<Value, UnknownAlias> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(value);
        };
        Ok(match value {
            Value::String(text) => match self.reveal_number(&text) {
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
    fn reveal_number(&self, text: &str) -> Option<Number> {
        if text.len() > 64 {
            return None;
        }
        let seen = recognise(self, text);
        let [one] = seen.as_slice() else { return None };
        let entry = self
            .entries
            .get(one.entry?)
            .filter(|entry| entry.form == AliasValueForm::Number)?;
        let rest = text[..one.start].trim().is_empty() && text[one.end..].trim().is_empty();
        if !rest {
            return None;
        }
        let value: &str = &entry.value;
        let whole = value.parse::<u64>().map(Number::from);
        let whole = whole.or_else(|_| value.parse::<i64>().map(Number::from));
        whole.ok().or_else(|| Number::from_f64(value.parse().ok()?))
    }

    fn reveal_recognised(&self, text: &str, seen: &[RecognisedAlias]) -> String {
        let mut revealed = String::with_capacity(text.len());
        let mut done = 0;
        for one in seen {
            let Some(entry) = one.entry.and_then(|index| self.entries.get(index)) else {
                continue;
            };
            revealed.push_str(&text[done..one.start]);
            if one.encoded {
                percent_encode(&entry.value, &mut revealed);
            } else {
                revealed.push_str(&entry.value);
            }
            done = one.end;
        }
        revealed.push_str(&text[done..]);
        revealed
    }

    /// Hides these findings in a text.
    pub(super) fn hide_found(&mut self, text: &str, found: &[SensitiveSpan], counts: &mut FindingCounts) -> String {
        let seen = recognise(self, text);
        if found.is_empty() && seen.is_empty() {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let mut done = 0;
        let mut found = subtract_aliases(text, found, &seen).into_iter().peekable();
        for alias in &seen {
            while let Some(one) = found.next_if(|one| one.start < alias.start) {
                shown.push_str(&text[done..one.start]);
                self.write_alias(
                    one.kind,
                    AliasValueForm::Text,
                    &text[one.start..one.end],
                    &mut shown,
                    counts,
                );
                done = one.end;
            }
            shown.push_str(&text[done..alias.start]);
            self.write_existing(&text[alias.start..alias.end], alias, &mut shown);
            done = alias.end;
        }
        for one in found {
            shown.push_str(&text[done..one.start]);
            self.write_alias(
                one.kind,
                AliasValueForm::Text,
                &text[one.start..one.end],
                &mut shown,
                counts,
            );
            done = one.end;
        }
        shown.push_str(&text[done..]);
        shown
    }

    /// Writes an alias that the text contains: a known one stays, an unknown one gets an alias itself.
    fn write_existing(&mut self, written: &str, seen: &RecognisedAlias, shown: &mut String) {
        if seen.entry.is_some() {
            shown.push_str(written);
        } else {
            self.write_entry(LITERAL_WORD, AliasValueForm::Text, written, shown);
        }
    }

    pub(super) fn write_alias(
        &mut self,
        kind: SensitiveKind,
        form: AliasValueForm,
        value: &str,
        shown: &mut String,
        counts: &mut FindingCounts,
    ) {
        counts.increment(kind.as_str());
        if kind == SensitiveKind::Secret {
            shown.push_str(SECRET_REMOVED);
        } else if matches!(kind, SensitiveKind::Custom(_)) && value.chars().count() < MIN_CUSTOM_LENGTH {
            write_removed(kind.as_str(), shown);
        } else {
            self.write_entry(kind.as_str(), form, value, shown);
        }
    }

    fn write_entry(&mut self, word: &str, form: AliasValueForm, value: &str, shown: &mut String) {
        let Some(code) = self.code_for(word, form, value) else {
            write_removed(word, shown);
            return;
        };
        write_alias_text(word, code, shown);
    }
}

/// Writes a notice that something is hidden for good.
fn write_removed(word: &str, shown: &mut String) {
    shown.push('⟦');
    shown.push_str(word);
    shown.push_str(" hidden⟧");
}

/// Returns the parts of findings that no alias covers, without the punctuation at their ends.
fn subtract_aliases(text: &str, found: &[SensitiveSpan], seen: &[RecognisedAlias]) -> Vec<SensitiveSpan> {
    let mut parts = Vec::with_capacity(found.len());
    for one in found {
        let mut start = one.start;
        let first = seen.partition_point(|alias| alias.end <= one.start);
        let within = seen[first..].iter().take_while(|alias| alias.start < one.end);
        let gaps = within.map(|alias| (alias.start, alias.end)).chain([(one.end, one.end)]);
        for (end, next) in gaps {
            if start < end
                && let Some((start, end)) = trim_punctuation(text, start, end, *one)
            {
                parts.push(SensitiveSpan { start, end, ..*one });
            }
            start = next;
        }
    }
    parts
}

/// Writes an alias in its usual brackets.
pub(super) fn write_alias_text(word: &str, code: AliasCode, shown: &mut String) {
    shown.push('‹');
    shown.push_str(word);
    shown.push(':');
    shown.extend(code.iter().map(|letter| char::from(*letter)));
    shown.push('›');
}

/// Walks over JSON and hides personal data.
struct JsonHider<'a> {
    aliases: &'a mut Aliases,
    detector: &'a Detector,
    counts: &'a mut FindingCounts,
}

impl JsonHider<'_> {
    fn hide_value(&mut self, value: Value, standing: ValueContext<'_>, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return Value::String(TOO_DEEP_NOTICE.to_owned());
        };
        match value {
            Value::String(text) => {
                let found = self.detector.find_value(&text, standing.text_kind(&text));
                Value::String(self.aliases.hide_found(&text, &found, self.counts))
            }
            Value::Number(number) => self.hide_number(number, standing),
            Value::Array(items) => {
                let heading = JsonColumns::from_first_row(&items);
                let standing = standing.for_list(heading.as_ref());
                let items = items.into_iter().enumerate();
                Value::Array(
                    items
                        .map(|(index, item)| self.hide_value(item, standing.for_item(index), depth))
                        .collect(),
                )
            }
            Value::Object(members) => {
                let columns = JsonColumns::from_members(&members);
                let standing = standing.for_object(&members, columns.as_ref());
                let mut hidden = Map::new();
                for (key, member) in members {
                    let under = standing.for_member(&key);
                    let found = self.detector.find_value(&key, None);
                    let key = self.aliases.hide_found(&key, &found, self.counts);
                    hidden.insert(key, self.hide_value(member, under, depth));
                }
                Value::Object(hidden)
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    fn hide_number(&mut self, number: Number, standing: ValueContext<'_>) -> Value {
        let written = number.to_string();
        let found = self.detector.find_number(&written, standing.number_kind(&written));
        match found {
            Some(finding) => {
                let mut shown = String::new();
                self.aliases
                    .write_alias(finding.kind, AliasValueForm::Number, &written, &mut shown, self.counts);
                Value::String(shown)
            }
            None => Value::Number(number),
        }
    }
}

/// Percent-encodes a value for a URL.
fn percent_encode(value: &str, out: &mut String) {
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
