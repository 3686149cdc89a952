//! `data`: personal data, secrets, and how much comes back to a reader.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::nullable;
use crate::pattern::ToolPattern;
use crate::units::Bytes;

mod own;
mod rules;

pub use own::{OwnCheck, OwnKind};
pub use rules::DataRules;

/// `data` as written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DataDraft {
    /// Personal data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pii: Option<PiiDraft>,
    /// Secrets in what comes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
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
    /// What the program inside sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<PiiInside>,
    /// How names of people are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<PiiNames>,
    /// The kinds that are looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<PiiKind>>,
    /// Tools that get the real values.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub reveal_to: Vec<ToolPattern>,
    /// Kinds of one's own, looked for besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "own::kinds")]
    pub own: Vec<OwnKind>,
}

/// What happens to personal data; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiMode {
    /// Nothing.
    Off,
    /// Stand-ins take its place.
    Alias,
    /// The whole answer is held back.
    Block,
}

/// What the program inside sees; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiInside {
    /// The real values.
    Real,
    /// Stand-ins.
    Alias,
}

/// How names of people are found; later finds more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PiiNames {
    /// By the keys they stand under.
    Keys,
    /// By a dictionary too.
    Dictionary,
}

/// A kind of personal data.
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
    /// Every kind.
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

    /// Those that are looked for where nothing is said: a program has to hand out links, and machines are nobody.
    pub const UNWRITTEN: [Self; 6] = [Self::Email, Self::Phone, Self::Card, Self::Iban, Self::Ssn, Self::Name];

    /// The kind as a policy says it.
    pub const fn word(self) -> &'static str {
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
pub enum Secrets {
    /// Nothing.
    Off,
    /// They are blacked out.
    Redact,
}

/// `data.return`: how much of a value comes back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReturnDraft {
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Rows of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<std::num::NonZeroU32>,
}

#[cfg(test)]
mod tests;
