//! Something that does not start, and why: a value, not an error.

use std::fmt;

/// A refusal, with the rule that refuses and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable code.
    pub code: &'static str,
    /// One sentence, without a period.
    pub message: String,
    /// The policy's key.
    pub rule: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; hint: {hint}"))
    }
}
