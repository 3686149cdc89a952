//! Errors in the form of the contract: a code, a message, the rule, and a hint.

use serde::Serialize;

/// The reason why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct McpFault {
    /// The stable error code, such as `arguments.invalid`.
    pub(crate) code: String,
    /// The error as a sentence.
    pub(crate) message: String,
    /// What the caller can do next.
    pub(crate) hint: Option<String>,
    /// The key of the policy that decided.
    pub(crate) rule: Option<String>,
}

impl McpFault {
    pub(super) fn new(code: &str, message: impl Into<String>, hint: &str) -> McpFault {
        McpFault {
            code: code.to_owned(),
            message: message.into(),
            hint: Some(hint.to_owned()),
            rule: None,
        }
    }
}
