//! `tools.limits`: how often tools are called, whatever the rules say of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Rate;

/// `tools.limits`: how often tools may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolLimitsDraft {
    /// By all sessions of one principal together, in one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Rate>,
    /// By one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Rate>,
    /// Each server, by one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Rate>,
    /// Each tool, by one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Rate>,
}

/// What a limit counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitOf {
    /// All sessions of one principal.
    Tenant,
    /// One session.
    Session,
    /// One server in a session.
    Server,
    /// One tool in a session.
    Tool,
}

impl LimitOf {
    /// The key under `tools.limits`.
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
    /// Every limit that is written.
    pub(crate) fn each(&self) -> impl Iterator<Item = (LimitOf, Rate)> {
        let Self {
            tenant,
            session,
            server,
            tool,
        } = self;
        [
            (LimitOf::Tenant, *tenant),
            (LimitOf::Session, *session),
            (LimitOf::Server, *server),
            (LimitOf::Tool, *tool),
        ]
        .into_iter()
        .filter_map(|(of, rate)| Some((of, rate?)))
    }
}
