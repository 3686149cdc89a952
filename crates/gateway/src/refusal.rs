//! Refusals: why a call was not made or has no result, in a form that a program can act on.

use std::time::Duration;

use ringfence_journal::AskReason;
use ringfence_policy::RuleRef;

/// Why a call is refused or failed. It contains no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestRefusal {
    /// The stable code, such as `tool.unknown`.
    pub code: &'static str,
    /// One sentence about the reason.
    pub message: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// What the program can do next.
    pub hint: Option<String>,
    /// When a retry may succeed, in milliseconds.
    pub retry_after_ms: Option<u32>,
    /// A note for the gateway itself. Boxed, because most refusals have none.
    note: Option<Box<RefusalNote>>,
}

/// A property of a refusal that the program does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RefusalNote {
    /// This rule hides the tool: for the journal only.
    HiddenBy(String),
    /// The message contains text of a server, or of a person who saw the values.
    ForeignText,
}

/// The error that a program gets instead of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallErrorBody {
    /// The stable code, such as `tool.unknown`.
    pub code: String,
    /// One sentence about the reason.
    pub message: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// What the program can do next.
    pub hint: Option<String>,
    /// When a retry may succeed, in milliseconds.
    pub retry_after_ms: Option<u32>,
}

impl From<RequestRefusal> for CallErrorBody {
    fn from(refusal: RequestRefusal) -> CallErrorBody {
        CallErrorBody {
            code: refusal.code.to_owned(),
            message: refusal.message,
            rule: refusal.rule,
            hint: refusal.hint,
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}

impl RequestRefusal {
    /// Creates a refusal with a code and a message only.
    pub fn new(code: &'static str, message: impl Into<String>) -> RequestRefusal {
        RequestRefusal {
            code,
            message: message.into(),
            rule: None,
            hint: None,
            retry_after_ms: None,
            note: None,
        }
    }

    /// Adds the rule that decided.
    #[must_use]
    pub fn by_rule(mut self, rule: impl Into<String>) -> RequestRefusal {
        self.rule = Some(rule.into());
        self
    }

    /// Adds a hint about what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> RequestRefusal {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the message as foreign text, which must be redacted before the program gets it.
    #[must_use]
    pub fn with_foreign_text(mut self) -> RequestRefusal {
        self.note = Some(Box::new(RefusalNote::ForeignText));
        self
    }

    /// Replaces the message by one that the program may see.
    pub(crate) fn with_message(mut self, message: String) -> RequestRefusal {
        self.message = message;
        self.note = None;
        self
    }

    /// Whether the message may contain personal data.
    pub(crate) fn has_foreign_text(&self) -> bool {
        matches!(self.note.as_deref(), Some(RefusalNote::ForeignText))
    }

    pub(crate) fn with_retry_after(mut self, wait: Duration) -> RequestRefusal {
        // One millisecond more: a caller that waits exactly this long finds capacity.
        self.retry_after_ms = Some(u32::try_from(wait.as_millis() + 1).unwrap_or(u32::MAX));
        self
    }

    pub(crate) fn hidden_by(mut self, rule: &str) -> RequestRefusal {
        self.note = Some(Box::new(RefusalNote::HiddenBy(rule.to_owned())));
        self
    }

    /// Returns the rule that hides the tool, if one does.
    pub(crate) fn hiding_rule(&self) -> Option<&str> {
        match self.note.as_deref() {
            Some(RefusalNote::HiddenBy(rule)) => Some(rule),
            Some(RefusalNote::ForeignText) | None => None,
        }
    }

    /// Whether the policy refused the call, rather than its arguments or the server.
    pub(crate) fn is_policy_decision(&self) -> bool {
        [
            "policy.",
            "approval.",
            "limit.rate",
            "limit.calls",
            "tool.drift",
            "skill.policy",
            "net.denied",
        ]
        .iter()
        .any(|code| self.code.starts_with(code))
    }

    pub(crate) fn too_long_to_show(tool: &str, rule: &str) -> RequestRefusal {
        RequestRefusal::new(
            "approval.too_large",
            format!("a person has to allow `{tool}`, and its arguments are too long to be shown"),
        )
        .by_rule(rule)
        .with_hint("say it with at most 256 KiB")
    }

    pub(crate) fn denied(tool: &str, rule: &RuleRef) -> RequestRefusal {
        RequestRefusal::new("policy.denied", format!("the policy denies this call of `{tool}`"))
            .by_rule(rule.as_str())
            .with_hint("do without it, or ask the operator; `ringfence policy explain` shows why")
    }

    pub(crate) fn needs_approval(tool: &str, rule: &str) -> RequestRefusal {
        RequestRefusal::new("approval.needed", format!("`{tool}` was refused, it needs approval"))
            .by_rule(rule)
            .with_hint("a person has to allow it first: do without it, or ask the operator to allow it")
    }

    /// Refuses a call that needs approval where nobody can be asked.
    pub(crate) fn no_approver(tool: &str, why: AskReason, rule: &str) -> RequestRefusal {
        match why {
            AskReason::Rule => RequestRefusal::needs_approval(tool, rule),
            AskReason::Drift => RequestRefusal::drifted(tool).with_hint(format!(
                "the operator looks at it with `ringfence tools show {tool}` and accepts it with `ringfence tools accept {tool}`"
            )),
            AskReason::Unknown => RequestRefusal::new("approval.needed", "nobody can be asked whether to call it again").by_rule(rule),
        }
    }

    /// Refuses a call beyond the limit of the execution.
    pub(crate) fn too_many_calls(most: u64) -> RequestRefusal {
        RequestRefusal::new(
            "limit.calls",
            format!("an execution may make {most} calls, refused ones included"),
        )
        .by_rule("tools.max_calls")
        .with_hint("make fewer calls: filter at the tool, or ask for more at once")
    }

    pub(crate) fn drifted(tool: &str) -> RequestRefusal {
        RequestRefusal::new(
            "tool.drift",
            format!("the definition of `{tool}` changed since it was first used"),
        )
        .by_rule("tools.drift")
    }

    pub(crate) fn denied_by_person(tool: &str, why: AskReason, rule: &str, note: Option<&str>) -> RequestRefusal {
        let what = match why {
            AskReason::Rule => format!("`{tool}` was refused by a person"),
            AskReason::Drift => format!("the new definition of `{tool}` was refused by a person"),
            AskReason::Unknown => "a person does not want it called again".to_owned(),
        };
        let message = note.map_or(what.clone(), |note| format!("{what}: {note}"));
        RequestRefusal::new("approval.denied", message)
            .with_foreign_text()
            .by_rule(rule)
            .with_hint("do without it; asking again with the same arguments asks the same person")
    }

    pub(crate) fn approval_expired(tool: &str, rule: &str) -> RequestRefusal {
        RequestRefusal::new("approval.timeout", format!("nobody answered in time whether `{tool}` may be called"))
            .by_rule(rule)
            .with_hint("no answer means no: do without it, or try again when somebody is there; `approvals.timeout` says how long is waited")
    }

    pub(crate) fn approval_withdrawn(tool: &str, rule: &str) -> RequestRefusal {
        RequestRefusal::new(
            "approval.withdrawn",
            format!("the question whether `{tool}` may be called was taken back"),
        )
        .by_rule(rule)
        .with_hint("call it again if it is still wanted")
    }

    /// Reports that the program is gone, and the effect of its call is unknown.
    pub(crate) fn caller_gone(tool: &str) -> RequestRefusal {
        RequestRefusal::new(
            "tool.unknown_effect",
            format!("the program ended while `{tool}` was under way"),
        )
    }

    /// Turns this into the refusal to repeat a call whose effect is unknown.
    pub(crate) fn with_unknown_effect(self, tool: &str) -> RequestRefusal {
        let message = format!(
            "nobody knows whether `{tool}` took effect: it was under way when its process died, and is not called again: {}",
            self.message
        );
        RequestRefusal::new("tool.unknown_effect", message)
            .by_rule("tools.unknown")
            .with_hint("look whether it took effect before calling it again")
    }
}
