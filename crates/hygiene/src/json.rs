//! Walks a JSON value with what keys, neighbours and schemas say of each string and number in it.

use serde_json::{Map, Value};

use crate::hints::{Hints, Says};
use crate::keys::{self, Sibling, Telling};
use crate::kind::Kind;
use crate::{secret, value};

/// How deep a value is followed. Whoever parses JSON within bounds never gets here.
pub(crate) const DEPTH: usize = 256;

/// What is known of a value from where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    telling: Option<Telling>,
    /// Whether the things around are people's.
    people: Option<bool>,
    hints: Option<&'a Hints>,
}

impl<'a> Standing<'a> {
    pub(crate) fn top(hints: &'a Hints) -> Standing<'a> {
        Standing {
            telling: telling_by(Some(hints), || None),
            people: None,
            hints: Some(hints),
        }
    }

    /// What a string there is said to be.
    pub(crate) fn kind_of(&self, text: &str) -> Option<Kind> {
        let telling = self.telling?;
        if telling.kind == Kind::Secret && telling.vague {
            return secret::is_random(text).then_some(Kind::Secret);
        }
        let good = match (telling.vague, self.people) {
            (false, _) | (true, Some(true)) => true,
            (true, None) => value::looks_named(text),
            (true, Some(false)) => false,
        };
        good.then_some(telling.kind)
    }

    /// What a number there is said to be.
    pub(crate) fn kind_of_number(&self) -> Option<Kind> {
        let telling = self.telling?;
        let numbers = matches!(
            telling.kind,
            Kind::Phone | Kind::Card | Kind::Ssn | Kind::NationalId | Kind::Secret
        );
        numbers.then_some(telling.kind)
    }

    /// What holds for the members of an object there.
    pub(crate) fn object(self, members: &Map<String, Value>) -> Standing<'a> {
        let mut people = self.people;
        for key in members.keys().take(64) {
            match keys::sibling(key) {
                Some(Sibling::Thing) => people = Some(false),
                Some(Sibling::Person) => {
                    people = Some(true);
                    break;
                }
                None => {}
            }
        }
        Standing { people, ..self }
    }

    /// What holds under a key.
    pub(crate) fn member(&self, key: &str) -> Standing<'a> {
        let hints = self.hints.and_then(|hints| hints.property(key));
        let inherited = || self.telling.filter(|_| is_part(key));
        let telling = telling_by(hints, || keys::telling(key).or_else(inherited));
        let people = if keys::of_people(key) {
            Some(true)
        } else if keys::of_things(key) {
            Some(false)
        } else {
            self.people
        };
        Standing { telling, people, hints }
    }

    /// What holds in a list there.
    pub(crate) fn item(self) -> Standing<'a> {
        let hints = self.hints.and_then(Hints::item);
        let telling = telling_by(hints, || self.telling);
        Standing { telling, hints, ..self }
    }
}

fn telling_by(hints: Option<&Hints>, otherwise: impl FnOnce() -> Option<Telling>) -> Option<Telling> {
    match hints.map(|hints| hints.says) {
        Some(Says::Is(kind)) => Some(Telling { kind, vague: false }),
        Some(Says::Harmless) => None,
        Some(Says::Nothing) | None => otherwise(),
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
