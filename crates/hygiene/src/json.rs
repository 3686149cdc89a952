//! Walks a JSON value and combines what keys, neighbours and schemas say about each string and number.

mod columns;

use serde_json::{Map, Value};

use crate::hints::Hints;
use crate::keys::{self, Telling, Trust, Whose};
use crate::kind::Kind;
use crate::value::{self, Ground};
pub(crate) use columns::{Columns, is_columns, is_pairs_field, is_pairs_value};
use columns::{Level, pair};

/// Most levels that are followed. JSON from a bounded parser never gets here.
pub(crate) const DEPTH: usize = 256;

/// The context of a value: what its surroundings say about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    telling: Option<Telling>,
    /// The kind that the schema states, for keys that say nothing that fits.
    hinted: Option<Kind>,
    /// Who or what the names at this level belong to.
    whose: Whose,
    /// Who or what the names below this level belong to.
    below: Whose,
    /// The key hint for the value of a field-value pair.
    pair: Option<Telling>,
    columns: Option<(&'a Columns, Level)>,
    hints: Option<&'a Hints>,
}

impl<'a> Standing<'a> {
    pub(crate) fn top(hints: &'a Hints) -> Standing<'a> {
        Standing {
            telling: None,
            hinted: hints.says,
            whose: Whose::Unsaid,
            below: Whose::Unsaid,
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
    pub(crate) fn kind_of(&self, text: &str) -> Option<Kind> {
        let fits = |kind: &Kind| value::borne_out(text, *kind, Ground::Key).is_some();
        let by_key = self.telling.and_then(|telling| value::meant(telling, self.whose, text));
        by_key.filter(fits).or(self.hinted).or(by_key)
    }

    /// Returns the kind of a number at this position.
    pub(crate) fn kind_of_number(&self, written: &str) -> Option<Kind> {
        let digits = written.bytes().filter(u8::is_ascii_digit).count();
        // Counts can be under such keys too, but have fewer digits.
        let is_number = |kind: &Kind| match kind {
            Kind::Phone => digits >= 6,
            Kind::Card => digits >= 8,
            Kind::Ssn | Kind::NationalId | Kind::BirthDate | Kind::Address | Kind::Secret => true,
            Kind::Email
            | Kind::Iban
            | Kind::Ip
            | Kind::Mac
            | Kind::Url
            | Kind::Name
            | Kind::Place
            | Kind::Organisation
            | Kind::Own(_) => false,
        };
        let by_key = self.telling.filter(|telling| !telling.is_vague());
        let by_key = by_key.and_then(|telling| value::meant(telling, self.whose, written));
        by_key.filter(is_number).or(self.hinted.filter(is_number))
    }

    /// Returns the context for the members of an object.
    pub(crate) fn object<'b>(self, members: &Map<String, Value>, columns: Option<&'b Columns>) -> Standing<'b>
    where
        'a: 'b,
    {
        let speaking = members.iter().take(64).filter(|(key, member)| speaks(key, member));
        let whose = self.below.beside(speaking.map(|(key, _)| key.as_str()));
        Standing {
            whose,
            pair: pair(members),
            columns: columns.map(|columns| (columns, Level::Above)),
            ..self
        }
    }

    /// Returns the context of the value under a key.
    pub(crate) fn member(&self, key: &str) -> Standing<'a> {
        let hints = self.hints.and_then(|hints| hints.property(key));
        let inherited = || {
            let telling = self.telling.filter(|_| is_part(key))?;
            // A name that is given in parts belongs to a person.
            let parted = telling.kind == Kind::Name && is_part_of_a_name(key);
            let trust = if parted { Trust::Sure } else { telling.trust };
            Some(Telling { trust, ..telling })
        };
        let paired = self.pair.filter(|_| is_pairs_value(key));
        let telling = paired.or_else(|| keys::telling(key)).or_else(inherited);
        let columns = self
            .columns
            .and_then(|(columns, level)| Some((columns, level.under(key)?)));
        let hinted = hints.and_then(|hints| hints.says);
        let hinted = hinted.or(self.hinted.filter(|_| is_part(key)));
        Standing {
            telling,
            hinted,
            whose: self.whose,
            below: self.below.under(key),
            pair: None,
            columns,
            hints,
        }
    }

    /// Returns the context for a list; `heading` has the columns that its first item names.
    pub(crate) fn list<'b>(self, heading: Option<&'b Columns>) -> Standing<'b>
    where
        'a: 'b,
    {
        let columns = heading.map(|columns| (columns, Level::Rows(1))).or(self.columns);
        Standing { columns, ..self }
    }

    /// Returns the context of one list item.
    pub(crate) fn item(self, index: usize) -> Standing<'a> {
        let hints = self.hints.and_then(Hints::item);
        let hinted = hints.and_then(|hints| hints.says).or(self.hinted);
        let item = Standing {
            hinted,
            hints,
            columns: None,
            ..self
        };
        match self.columns {
            Some((columns, Level::Rows(first))) if index >= first => Standing {
                columns: Some((columns, Level::Row)),
                ..item
            },
            Some((columns, Level::Row)) => Standing {
                telling: columns.telling(index),
                whose: columns.whose(),
                ..item
            },
            _ => item,
        }
    }
}

/// Whether a key informs about its siblings: its value is present, or could be.
fn speaks(key: &str, member: &Value) -> bool {
    match member {
        Value::Bool(_) => false,
        Value::String(text) if !text.is_empty() => keys::telling(key)
            .filter(|telling| telling.kind != Kind::Name)
            .is_none_or(|telling| {
                let machine = telling.kind == Kind::Email && value::is_nobodys_mail(text);
                !machine && value::borne_out(text, telling.kind, Ground::Key).is_some()
            }),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Whether a key only subdivides what the key above it says.
pub(crate) fn is_part(key: &str) -> bool {
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
