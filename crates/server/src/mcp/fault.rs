//! What went wrong, in the words of the contract: a code, a sentence, the rule, what to do next.

use serde::Serialize;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// A stable code.
    pub(crate) code: String,
    /// A sentence.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// The policy's key that decided.
    pub(crate) rule: Option<String>,
}

impl Fault {
    pub(super) fn new(code: &str, message: impl Into<String>, hint: &str) -> Fault {
        Fault {
            code: code.to_owned(),
            message: message.into(),
            hint: Some(hint.to_owned()),
            rule: None,
        }
    }
}
