//! Walks a JSON value and combines what keys, neighbours and schemas say about each string and number.

mod columns;

use serde_json::{Map, Value};

use crate::hints::SchemaHints;
use crate::keys::{self, HintTrust, KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};
use columns::{ColumnLevel, field_value_hint};
pub(crate) use columns::{JsonColumns, is_columns, is_field_value_key, is_pairs_field};

/// Most levels that are followed. JSON from a bounded parser never gets here.
pub(crate) const MAX_DEPTH: usize = 256;

/// The context of a value: what its surroundings say about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueContext<'a> {
    telling: Option<KeyHint>,
    /// The kind that the schema states, for keys that say nothing that fits.
    hinted: Option<SensitiveKind>,
    /// Who or what the names at this level belong to.
    whose: NameOwner,
    /// Who or what the names below this level belong to.
    below: NameOwner,
    /// The key hint for the value of a field-value pair.
    pair: Option<KeyHint>,
    columns: Option<(&'a JsonColumns, ColumnLevel)>,
    hints: Option<&'a SchemaHints>,
}

impl<'a> ValueContext<'a> {
    pub(crate) fn root(hints: &'a SchemaHints) -> ValueContext<'a> {
        ValueContext {
            telling: None,
            hinted: hints.says,
            whose: NameOwner::Unknown,
            below: NameOwner::Unknown,
            pair: None,
            columns: None,
            hints: Some(hints),
        }
    }

    /// Whether keys above or beside the value say anything about it.
    pub(crate) fn tells(&self) -> bool {
        self.telling.is_some() || self.columns.is_some() || self.pair.is_some()
    }

    /// Returns the kind of a string at this position.
    pub(crate) fn text_kind(&self, text: &str) -> Option<SensitiveKind> {
        let fits = |kind: &SensitiveKind| value::confirmed_part(text, *kind, HintSource::Key).is_some();
        let by_key = self
            .telling
            .and_then(|telling| value::kind_of_value(telling, self.whose, text));
        by_key.filter(fits).or(self.hinted).or(by_key)
    }

    /// Returns the kind of a number at this position.
    pub(crate) fn number_kind(&self, written: &str) -> Option<SensitiveKind> {
        let digits = written.bytes().filter(u8::is_ascii_digit).count();
        // Counts can be under such keys too, but have fewer digits.
        let is_number = |kind: &SensitiveKind| match kind {
            SensitiveKind::Phone => digits >= 6,
            SensitiveKind::Card => digits >= 8,
            SensitiveKind::Ssn
            | SensitiveKind::NationalId
            | SensitiveKind::BirthDate
            | SensitiveKind::Address
            | SensitiveKind::Secret => true,
            SensitiveKind::Email
            | SensitiveKind::Iban
            | SensitiveKind::Ip
            | SensitiveKind::Mac
            | SensitiveKind::Url
            | SensitiveKind::Name
            | SensitiveKind::Place
            | SensitiveKind::Organisation
            | SensitiveKind::Custom(_) => false,
        };
        let by_key = self.telling.filter(|telling| !telling.is_vague());
        let by_key = by_key.and_then(|telling| value::kind_of_value(telling, self.whose, written));
        by_key.filter(is_number).or(self.hinted.filter(is_number))
    }

    /// Returns the context for the members of an object.
    pub(crate) fn for_object<'b>(
        self,
        members: &Map<String, Value>,
        columns: Option<&'b JsonColumns>,
    ) -> ValueContext<'b>
    where
        'a: 'b,
    {
        let speaking = members
            .iter()
            .take(64)
            .filter(|(key, member)| informs_siblings(key, member));
        let whose = self.below.with_siblings(speaking.map(|(key, _)| key.as_str()));
        ValueContext {
            whose,
            pair: field_value_hint(members),
            columns: columns.map(|columns| (columns, ColumnLevel::Above)),
            ..self
        }
    }

    /// Returns the context of the value under a key.
    pub(crate) fn for_member(&self, key: &str) -> ValueContext<'a> {
        let hints = self.hints.and_then(|hints| hints.property(key));
        let inherited = || {
            let telling = self.telling.filter(|_| is_neutral_key(key))?;
            // A name that is given in parts belongs to a person.
            let parted = telling.kind == SensitiveKind::Name && is_part_of_a_name(key);
            // So does the number of a house.
            let parted = parted || telling.kind == SensitiveKind::Address && matches!(key, "number" | "house");
            let trust = if parted { HintTrust::Sure } else { telling.trust };
            Some(KeyHint { trust, ..telling })
        };
        let paired = self.pair.filter(|_| is_field_value_key(key));
        let telling = paired.or_else(|| keys::key_hint(key)).or_else(inherited);
        let columns = self
            .columns
            .and_then(|(columns, level)| Some((columns, level.below_key(key)?)));
        let hinted = hints.and_then(|hints| hints.says);
        let hinted = hinted.or(self.hinted.filter(|_| is_neutral_key(key)));
        ValueContext {
            telling,
            hinted,
            whose: self.whose,
            below: self.below.below_key(key),
            pair: None,
            columns,
            hints,
        }
    }

    /// Returns the context for a list; `heading` has the columns that its first item names.
    pub(crate) fn for_list<'b>(self, heading: Option<&'b JsonColumns>) -> ValueContext<'b>
    where
        'a: 'b,
    {
        let columns = heading.map(|columns| (columns, ColumnLevel::Rows(1))).or(self.columns);
        ValueContext { columns, ..self }
    }

    /// Returns the context of one list item.
    pub(crate) fn for_item(self, index: usize) -> ValueContext<'a> {
        let hints = self.hints.and_then(SchemaHints::item);
        let hinted = hints.and_then(|hints| hints.says).or(self.hinted);
        let item = ValueContext {
            hinted,
            hints,
            columns: None,
            ..self
        };
        match self.columns {
            Some((columns, ColumnLevel::Rows(first))) if index >= first => ValueContext {
                columns: Some((columns, ColumnLevel::Row)),
                ..item
            },
            Some((columns, ColumnLevel::Row)) => ValueContext {
                telling: columns.hint_at(index),
                whose: columns.name_owner(),
                ..item
            },
            _ => item,
        }
    }
}

/// Whether a key informs about its siblings: its value is present, or could be.
fn informs_siblings(key: &str, member: &Value) -> bool {
    match member {
        Value::Bool(_) => false,
        Value::String(text) if !text.is_empty() => keys::key_hint(key)
            .filter(|telling| telling.kind != SensitiveKind::Name)
            .is_none_or(|telling| {
                let machine = telling.kind == SensitiveKind::Email && value::is_nobodys_mail(text);
                !machine && value::confirmed_part(text, telling.kind, HintSource::Key).is_some()
            }),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Whether a key only subdivides what the key above it says.
pub(crate) fn is_neutral_key(key: &str) -> bool {
    matches!(
        key,
        "first"
            | "last"
            | "middle"
            | "given"
            | "family"
            | "full"
            | "value"
            | "line"
            | "line1"
            | "line2"
            | "line3"
            | "state"
            | "number"
            | "home"
            | "work"
            | "mobile"
            | "primary"
            | "secondary"
            | "text"
            | "formatted"
            | "display"
            | "house"
    )
}

/// Whether a key is a part of a person's name.
fn is_part_of_a_name(key: &str) -> bool {
    matches!(key, "first" | "last" | "middle" | "given" | "family")
}

#[cfg(test)]
mod tests;
