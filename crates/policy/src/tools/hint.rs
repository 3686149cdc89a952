//! What a tool's server says of its effects, and rules about it. A server that says nothing is taken at its worst, as the protocol
//! has it; one that lies is not found out: hints sort honest tools, they do not hold dishonest ones.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::Verdict;

/// An effect that a rule can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// It may destroy something.
    Destructive,
    /// It touches a world beyond its server.
    OpenWorld,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destructive => "destructive",
            Self::OpenWorld => "open_world",
        })
    }
}

/// What a server says of one tool; absent is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hints {
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// It touches a world beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Hints {
    /// Nothing is said.
    pub const fn none() -> Self {
        Self {
            read_only: None,
            destructive: None,
            open_world: None,
        }
    }

    /// Whether the server itself says so.
    pub const fn says(self, hint: Hint) -> bool {
        let said = match hint {
            Hint::Destructive => self.destructive,
            Hint::OpenWorld => self.open_world,
        };
        matches!(said, Some(true))
    }

    /// Whether it has to be reckoned with: what is not said counts, but that what changes nothing destroys nothing.
    pub const fn may_be(self, hint: Hint) -> bool {
        match (hint, self.destructive, self.open_world) {
            (Hint::Destructive, Some(said), _) | (Hint::OpenWorld, _, Some(said)) => said,
            (Hint::Destructive, None, _) => !matches!(self.read_only, Some(true)),
            (Hint::OpenWorld, _, None) => true,
        }
    }

    /// Whether a rule about `hint` is about such a tool: what is not said never helps to allow, and always to refuse.
    pub(crate) fn hold(self, hint: Hint, verdict: Verdict) -> bool {
        if verdict == Verdict::Allow {
            self.says(hint)
        } else {
            self.may_be(hint)
        }
    }
}
