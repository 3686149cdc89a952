//! `data.pii.own`: an operator's custom kinds of personal data, each a regular expression and an optional check of its matches.

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::PiiKind;
use crate::draft::nullable;

/// The most bytes of a compiled regular expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The most custom kinds of one document: each costs a pass over every text.
const MAX_CUSTOM_KINDS: usize = 32;

/// Names that aliases already use, besides those of [`PiiKind`].
const RESERVED_NAMES: [&str; 8] = ["id", "mac", "born", "place", "address", "org", "secret", "text"];

/// A custom kind of personal data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CustomPiiKind {
    /// The name in aliases and counts: one to twelve lower-case letters, not the name of a built-in kind.
    #[schemars(regex(pattern = "^[a-z]{1,12}$"))]
    pub name: String,
    /// A regular expression. If it has a group called `value`, only the text of that group is personal data.
    pub pattern: String,
    /// The check that a match must pass to count.
    #[serde(default, skip_serializing_if = "CustomPiiCheck::is_none")]
    pub check: CustomPiiCheck,
}

/// The check that a match of a custom kind must pass to count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomPiiCheck {
    /// Every match counts, without a check.
    #[default]
    None,
    /// The Luhn checksum of payment cards, over the digits.
    Luhn,
    /// The mod-97 checksum of bank accounts, over the letters and digits.
    Mod97,
}

impl CustomPiiCheck {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl CustomPiiKind {
    /// Refuses a kind with an unusable name or expression.
    fn validate(self) -> Result<Self, String> {
        let name = self.name.escape_debug();
        let letters = (1..=12).contains(&self.name.len()) && self.name.bytes().all(|byte| byte.is_ascii_lowercase());
        if !letters {
            return Err(format!("`{name}` is no name for a kind: one to twelve small letters"));
        }
        let known = PiiKind::ALL.iter().map(|kind| kind.as_str()).chain(RESERVED_NAMES);
        if known.into_iter().any(|word| word == self.name) {
            return Err(format!("`{name}` is built in, choose another name"));
        }
        let pattern = RegexBuilder::new(&self.pattern).size_limit(MAX_REGEX_BYTES).build();
        let pattern = pattern.map_err(|error| {
            let said = crate::tools::last_error_line(&error);
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

pub(super) fn deserialize_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CustomPiiKind>, D::Error> {
    /// A kind that is validated while its element is read, so that an error carries its position.
    #[derive(Deserialize)]
    #[serde(try_from = "CustomPiiKind")]
    struct ValidatedPiiKind(CustomPiiKind);

    impl TryFrom<CustomPiiKind> for ValidatedPiiKind {
        type Error = String;

        fn try_from(kind: CustomPiiKind) -> Result<Self, String> {
            kind.validate().map(Self)
        }
    }

    let checked: Vec<ValidatedPiiKind> = nullable(deserializer)?;
    if checked.len() > MAX_CUSTOM_KINDS {
        let message = format!("{} kinds of one's own, the most is {MAX_CUSTOM_KINDS}", checked.len());
        return Err(serde::de::Error::custom(message));
    }
    Ok(checked.into_iter().map(|kind| kind.0).collect())
}
