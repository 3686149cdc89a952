//! Walks a JSON value with what keys, neighbours and schemas say of each string and number in it.

use serde_json::{Map, Value};

use crate::hints::Hints;
use crate::keys::{self, Telling, Whose};
use crate::kind::Kind;
use crate::value::{self, Ground};

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
    hints: Option<&'a Hints>,
}

impl<'a> Standing<'a> {
    pub(crate) fn top(hints: &'a Hints) -> Standing<'a> {
        Standing {
            telling: None,
            hinted: hints.says,
            whose: Whose::Unsaid,
            hints: Some(hints),
        }
    }

    /// What a string there is said to be.
    pub(crate) fn kind_of(&self, text: &str) -> Option<Kind> {
        let fits = |kind: &Kind| value::borne_out(text, *kind, Ground::Key).is_some();
        let by_key = self.telling.and_then(|telling| value::meant(telling, self.whose, text));
        by_key.filter(fits).or(self.hinted).or(by_key)
    }

    /// What a number there is said to be.
    pub(crate) fn kind_of_number(&self) -> Option<Kind> {
        let is_number = |kind: &Kind| {
            matches!(
                kind,
                Kind::Phone
                    | Kind::Card
                    | Kind::Ssn
                    | Kind::NationalId
                    | Kind::BirthDate
                    | Kind::Address
                    | Kind::Secret
            )
        };
        let by_key = self.telling.filter(|telling| !telling.vague);
        let by_key = by_key.map(|telling| telling.kind);
        by_key.filter(is_number).or(self.hinted.filter(is_number))
    }

    /// What holds for the members of an object there.
    pub(crate) fn object(self, members: &Map<String, Value>) -> Standing<'a> {
        let whose = self.whose.beside(members.keys().take(64).map(String::as_str));
        Standing { whose, ..self }
    }

    /// What holds under a key.
    pub(crate) fn member(&self, key: &str) -> Standing<'a> {
        let hints = self.hints.and_then(|hints| hints.property(key));
        let inherited = || self.telling.filter(|_| is_part(key));
        let telling = keys::telling(key).or_else(inherited);
        let hinted = hints.and_then(|hints| hints.says);
        let hinted = hinted.or(self.hinted.filter(|_| is_part(key)));
        let whose = self.whose.under(key);
        Standing {
            telling,
            hinted,
            whose,
            hints,
        }
    }

    /// What holds in a list there.
    pub(crate) fn item(self) -> Standing<'a> {
        let hints = self.hints.and_then(Hints::item);
        let hinted = hints.and_then(|hints| hints.says).or(self.hinted);
        Standing { hinted, hints, ..self }
    }
}

/// Keys that only divide what the key above them says.
fn is_part(key: &str) -> bool {
    matches!(
        key,
        "first"
            | "last"
            | "middle"
            | "given"
            | "family"
            | "full"
            | "value"
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

#[cfg(test)]
mod tests;
