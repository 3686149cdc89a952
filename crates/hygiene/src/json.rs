//! Walks a JSON value with what keys, neighbours and schemas say of each string and number in it.

mod columns;

use serde_json::{Map, Value};

use crate::hints::Hints;
use crate::keys::{self, Telling, Trust, Whose};
use crate::kind::Kind;
use crate::value::{self, Ground};
pub(crate) use columns::{Columns, is_columns, is_pairs_field, is_pairs_value};
use columns::{Level, pair};

/// How deep a value is followed. Whoever parses JSON within bounds never gets here.
pub(crate) const DEPTH: usize = 256;

/// What is known of a value from where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    telling: Option<Telling>,
    /// What the schema says, where the key says nothing that fits.
    hinted: Option<Kind>,
    /// What the names around are names of.
    whose: Whose,
    /// What the names below are names of.
    below: Whose,
    /// What the field says that a value beside it is the value of.
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

    /// Whether what stands above or beside says anything of a value there.
    pub(crate) fn tells(&self) -> bool {
        self.telling.is_some() || self.columns.is_some() || self.pair.is_some()
    }

    /// What a string there is said to be.
    pub(crate) fn kind_of(&self, text: &str) -> Option<Kind> {
        let fits = |kind: &Kind| value::borne_out(text, *kind, Ground::Key).is_some();
        let by_key = self.telling.and_then(|telling| value::meant(telling, self.whose, text));
        by_key.filter(fits).or(self.hinted).or(by_key)
    }

    /// What a number there is said to be.
    pub(crate) fn kind_of_number(&self, written: &str) -> Option<Kind> {
        let digits = written.bytes().filter(u8::is_ascii_digit).count();
        // A count stands under such keys too, and has fewer digits.
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

    /// What holds for the members of an object there.
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

    /// What holds under a key.
    pub(crate) fn member(&self, key: &str) -> Standing<'a> {
        let hints = self.hints.and_then(|hints| hints.property(key));
        let inherited = || {
            let telling = self.telling.filter(|_| is_part(key))?;
            // A name that is given in parts is a person's.
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

    /// What holds for a list there whose first item names the columns of the others.
    pub(crate) fn list<'b>(self, heading: Option<&'b Columns>) -> Standing<'b>
    where
        'a: 'b,
    {
        let columns = heading.map(|columns| (columns, Level::Rows(1))).or(self.columns);
        Standing { columns, ..self }
    }

    /// What holds for an item of a list there.
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

/// Whether a key says something of its neighbours: what it is about must be there, or could be.
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

/// Keys that only divide what the key above them says.
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

/// Keys of the parts of a person's name.
fn is_part_of_a_name(key: &str) -> bool {
    matches!(key, "first" | "last" | "middle" | "given" | "family")
}

#[cfg(test)]
mod tests;
