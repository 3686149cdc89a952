//! `data`: personal data, secrets, and how much of a value comes back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::nullable;
use crate::pattern::ToolPattern;
use crate::units::ByteSize;

mod custom;
mod rules;

pub use custom::{CustomPiiCheck, CustomPiiKind};
pub use rules::DataRules;

/// `data`: personal data, secrets, and how much of a value comes back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DataDraft {
    /// How personal data is found and hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pii: Option<PiiDraft>,
    /// What happens to secrets in everything that comes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretMode>,
    /// How much of a value comes back.
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    pub returned: Option<ReturnDraft>,
}

/// `data.pii`: aliases for personal data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PiiDraft {
    /// What happens to personal data on its way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PiiMode>,
    /// What the program in the sandbox sees of personal data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<PiiInside>,
    /// How personal names are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<PiiNames>,
    /// The built-in kinds that are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<PiiKind>>,
    /// Tools that get the real values in place of aliases; each ceiling must name them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub reveal_to: Vec<ToolPattern>,
    /// Custom kinds that are looked for as well.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "custom::deserialize_kinds"
    )]
    pub own: Vec<CustomPiiKind>,
}

/// What happens to personal data; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiMode {
    /// Personal data passes unchanged.
    Off,
    /// Aliases take its place.
    Alias,
    /// The whole result is withheld.
    Block,
}

/// What the program in the sandbox sees of personal data; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiInside {
    /// The program sees the real values.
    Real,
    /// The program sees aliases only.
    Alias,
}

/// How personal names are found; later finds more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiNames {
    /// By the keys under which they appear.
    Keys,
    /// By the keys and by a dictionary of names.
    Dictionary,
}

/// A built-in kind of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum PiiKind {
    Email,
    Phone,
    Card,
    Iban,
    Ssn,
    Ip,
    Url,
    Name,
}

impl PiiKind {
    /// Every built-in kind, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::Email,
        Self::Phone,
        Self::Card,
        Self::Iban,
        Self::Ssn,
        Self::Ip,
        Self::Url,
        Self::Name,
    ];

    /// The kinds that are looked for by default. URLs and IP addresses are not: a program has to return links, and a machine is
    /// not a person.
    pub const DEFAULT: [Self; 6] = [Self::Email, Self::Phone, Self::Card, Self::Iban, Self::Ssn, Self::Name];

    /// The kind as a policy file writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Card => "card",
            Self::Iban => "iban",
            Self::Ssn => "ssn",
            Self::Ip => "ip",
            Self::Url => "url",
            Self::Name => "name",
        }
    }
}

/// What happens to secrets in what comes out; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretMode {
    /// Secrets pass through unchanged.
    Off,
    /// Secrets are blacked out.
    Redact,
}

/// `data.return`: how much of a value comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReturnDraft {
    /// The most bytes of a returned value; no cap unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// The most rows of a returned list; no cap unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<std::num::NonZeroU32>,
}

#[cfg(test)]
mod tests;
