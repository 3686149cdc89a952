//! `tools.limits`: how often tools may be called, whatever their rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Rate;

/// `tools.limits`: how often tools may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolLimitsDraft {
    /// Calls of all sessions of one principal together, in one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Rate>,
    /// All tool calls of one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Rate>,
    /// Calls of each server in one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Rate>,
    /// Calls of each tool in one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Rate>,
}

/// The scope in which a limit counts calls together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolLimitScope {
    /// All sessions of one principal.
    Tenant,
    /// All calls of one session.
    Session,
    /// One server in a session.
    Server,
    /// One tool in a session.
    Tool,
}

impl ToolLimitScope {
    /// The key below `tools.limits`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Session => "session",
            Self::Server => "server",
            Self::Tool => "tool",
        }
    }
}

impl ToolLimitsDraft {
    /// Every limit that is set, with its scope.
    pub(crate) fn each(&self) -> impl Iterator<Item = (ToolLimitScope, Rate)> {
        let Self {
            tenant,
            session,
            server,
            tool,
        } = self;
        [
            (ToolLimitScope::Tenant, *tenant),
            (ToolLimitScope::Session, *session),
            (ToolLimitScope::Server, *server),
            (ToolLimitScope::Tool, *tool),
        ]
        .into_iter()
        .filter_map(|(of, rate)| Some((of, rate?)))
    }
}
