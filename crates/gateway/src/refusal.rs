//! Why a call was not made, or has no result: what a program can act on.

use ringfence_policy::Rule;

/// An answer that is no result. Nothing in it is a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A stable name.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
    /// The rule that decided.
    pub rule: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// The rule that hides the tool: for the journal only, never for the program.
    pub(crate) hidden_by: Option<String>,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
            rule: None,
            hint: None,
            hidden_by: None,
        }
    }

    pub(crate) fn by(mut self, rule: impl Into<String>) -> Refusal {
        self.rule = Some(rule.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn hidden_by(mut self, rule: &str) -> Refusal {
        self.hidden_by = Some(rule.to_owned());
        self
    }

    /// Whether the policy refused, and not the arguments or the server.
    pub(crate) fn is_the_policys(&self) -> bool {
        ["policy.", "approval.", "limit.rate", "limit.calls", "tool.drift"]
            .iter()
            .any(|code| self.code.starts_with(code))
    }

    pub(crate) fn denied(tool: &str, rule: &Rule) -> Refusal {
        Refusal::new("policy.denied", format!("`{tool}` may not be called so"))
            .by(rule.as_str())
            .hint("do without it, or ask the operator; `ringfence policy explain` shows why")
    }

    pub(crate) fn needs_approval(tool: &str, rule: &str) -> Refusal {
        Refusal::new("approval.needed", format!("`{tool}` was refused, it needs approval"))
            .by(rule)
            .hint("a person has to allow it first: do without it, or ask the operator to allow it")
    }
}
