//! Effects that a tool's server declares, and rules about them. An undeclared effect counts as the worst case, as the protocol
//! specifies. A false declaration is not detected: hints help with honest servers, and do not constrain dishonest ones.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decide::RuleEffect;

/// An effect that a rule can require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolHint {
    /// The tool may destroy something.
    Destructive,
    /// The tool reaches beyond its server.
    OpenWorld,
}

impl fmt::Display for ToolHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destructive => "destructive",
            Self::OpenWorld => "open_world",
        })
    }
}

/// The effects that a server declares for one tool; `None` means undeclared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolHints {
    /// Whether the tool changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether the tool reaches beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// Hints of a tool whose server declares nothing.
    pub const fn none() -> Self {
        Self {
            read_only: None,
            destructive: None,
            open_world: None,
        }
    }

    /// Whether the server declares this effect.
    pub const fn declares(self, hint: ToolHint) -> bool {
        let said = match hint {
            ToolHint::Destructive => self.destructive,
            ToolHint::OpenWorld => self.open_world,
        };
        matches!(said, Some(true))
    }

    /// Whether the effect is possible. An undeclared effect is, except that a read-only tool destroys nothing.
    pub const fn is_possible(self, hint: ToolHint) -> bool {
        match (hint, self.destructive, self.open_world) {
            (ToolHint::Destructive, Some(said), _) | (ToolHint::OpenWorld, _, Some(said)) => said,
            (ToolHint::Destructive, None, _) => !matches!(self.read_only, Some(true)),
            (ToolHint::OpenWorld, _, None) => true,
        }
    }

    /// Whether a rule with `hint` matches such a tool: an undeclared effect never matches an allow rule, and always an ask or
    /// deny rule.
    pub(crate) fn satisfies_rule(self, hint: ToolHint, verdict: RuleEffect) -> bool {
        if verdict == RuleEffect::Allow {
            self.declares(hint)
        } else {
            self.is_possible(hint)
        }
    }
}
