//! `data.pii.own`: an operator's own kinds of personal data, each an expression and a check of what it matched.

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::PiiKind;
use crate::draft::nullable;

/// The most that a compiled expression may take.
const SIZE: usize = 1 << 20;

/// The most kinds that one document may add: each costs a pass over every text.
const MOST: usize = 32;

/// Words that an alias uses already, besides those of [`PiiKind`].
const TAKEN: [&str; 8] = ["id", "mac", "born", "place", "address", "org", "secret", "text"];

/// One kind of an operator's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OwnKind {
    /// What aliases and counts call it: one to twelve small letters, and no kind that is built in.
    #[schemars(regex(pattern = "^[a-z]{1,12}$"))]
    pub name: String,
    /// A regular expression; of a group called `value`, only what it matched is personal data.
    pub pattern: String,
    /// What a match must pass besides.
    #[serde(default, skip_serializing_if = "OwnCheck::is_none")]
    pub check: OwnCheck,
}

/// What a match of an own kind must pass to count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnCheck {
    /// Nothing more.
    #[default]
    None,
    /// The checksum of payment cards, over its digits.
    Luhn,
    /// The checksum of bank accounts, over its letters and digits.
    Mod97,
}

impl OwnCheck {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl OwnKind {
    /// Refuses what could not be looked for.
    fn checked(self) -> Result<Self, String> {
        let name = self.name.escape_debug();
        let letters = (1..=12).contains(&self.name.len()) && self.name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !letters {
            return Err(format!("`{name}` is no name for a kind: one to twelve small letters"));
        }
        let known = PiiKind::ALL.iter().map(|kind| kind.word()).chain(TAKEN);
        if known.into_iter().any(|word| word == self.name) {
            return Err(format!("`{name}` is built in, choose another name"));
        }
        let pattern = RegexBuilder::new(&self.pattern).size_limit(SIZE).build();
        let pattern = pattern.map_err(|error| {
            let said = crate::tools::last_line(&error);
            format!("the pattern of `{name}` is not a regular expression that can be used: {said}")
        })?;
        if pattern.is_match("") {
            return Err(format!(
                "the pattern of `{name}` matches nothing at all, so it would be everywhere"
            ));
        }
        Ok(self)
    }
}

pub(super) fn kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OwnKind>, D::Error> {
    /// One kind, checked where it stands.
    #[derive(Deserialize)]
    #[serde(try_from = "OwnKind")]
    struct Checked(OwnKind);

    impl TryFrom<OwnKind> for Checked {
        type Error = String;

        fn try_from(kind: OwnKind) -> Result<Self, String> {
            kind.checked().map(Self)
        }
    }

    let checked: Vec<Checked> = nullable(deserializer)?;
    if checked.len() > MOST {
        let message = format!("{} kinds of one's own, the most is {MOST}", checked.len());
        return Err(serde::de::Error::custom(message));
    }
    Ok(checked.into_iter().map(|kind| kind.0).collect())
}
