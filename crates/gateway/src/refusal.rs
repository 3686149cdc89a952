//! Refusals: why a call was not made or has no result, in a form that a program can act on.

use std::time::Duration;

use ringfence_journal::AskReason;
use ringfence_policy::Rule;

/// Why a call is refused or failed. It contains no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
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
    aside: Option<Box<Aside>>,
}

/// A property of a refusal that the program does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Aside {
    /// This rule hides the tool: for the journal only.
    HiddenBy(String),
    /// The message contains text of a server, or of a person who saw the values.
    WordsOfOthers,
}

/// The error that a program gets instead of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Told {
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

impl From<Refusal> for Told {
    fn from(refusal: Refusal) -> Told {
        Told {
            code: refusal.code.to_owned(),
            message: refusal.message,
            rule: refusal.rule,
            hint: refusal.hint,
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}

impl Refusal {
    /// Creates a refusal with a code and a message only.
    pub fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
            rule: None,
            hint: None,
            retry_after_ms: None,
            aside: None,
        }
    }

    /// Adds the rule that decided.
    #[must_use]
    pub fn by(mut self, rule: impl Into<String>) -> Refusal {
        self.rule = Some(rule.into());
        self
    }

    /// Adds a hint about what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the message as foreign text, which must be redacted before the program gets it.
    #[must_use]
    pub fn in_words_of_others(mut self) -> Refusal {
        self.aside = Some(Box::new(Aside::WordsOfOthers));
        self
    }

    /// Replaces the message by one that the program may see.
    pub(crate) fn saying(mut self, message: String) -> Refusal {
        self.message = message;
        self.aside = None;
        self
    }

    /// Whether the message may contain personal data.
    pub(crate) fn is_in_words_of_others(&self) -> bool {
        matches!(self.aside.as_deref(), Some(Aside::WordsOfOthers))
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Refusal {
        // One millisecond more: a caller that waits exactly this long finds capacity.
        self.retry_after_ms = Some(u32::try_from(wait.as_millis() + 1).unwrap_or(u32::MAX));
        self
    }

    pub(crate) fn hidden_by(mut self, rule: &str) -> Refusal {
        self.aside = Some(Box::new(Aside::HiddenBy(rule.to_owned())));
        self
    }

    /// Returns the rule that hides the tool, if one does.
    pub(crate) fn hiding_rule(&self) -> Option<&str> {
        match self.aside.as_deref() {
            Some(Aside::HiddenBy(rule)) => Some(rule),
            Some(Aside::WordsOfOthers) | None => None,
        }
    }

    /// Whether the policy refused the call, rather than its arguments or the server.
    pub(crate) fn is_the_policys(&self) -> bool {
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

    pub(crate) fn too_long_to_show(tool: &str, rule: &str) -> Refusal {
        Refusal::new(
            "approval.too_large",
            format!("a person has to allow `{tool}`, and its arguments are too long to be shown"),
        )
        .by(rule)
        .hint("say it with at most 256 KiB")
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

    /// Refuses a call that needs approval where nobody can be asked.
    pub(crate) fn nobody_to_ask(tool: &str, why: AskReason, rule: &str) -> Refusal {
        match why {
            AskReason::Rule => Refusal::needs_approval(tool, rule),
            AskReason::Drift => Refusal::drifted(tool).hint(format!(
                "the operator looks at it with `ringfence tools show {tool}` and accepts it with `ringfence tools accept {tool}`"
            )),
            AskReason::Unknown => Refusal::new("approval.needed", "nobody can be asked whether to call it again").by(rule),
        }
    }

    /// Refuses a call beyond the limit of the execution.
    pub(crate) fn too_many_calls(most: u64) -> Refusal {
        Refusal::new(
            "limit.calls",
            format!("an execution may make {most} calls, refused ones included"),
        )
        .by("tools.max_calls")
        .hint("make fewer calls: filter at the tool, or ask for more at once")
    }

    pub(crate) fn drifted(tool: &str) -> Refusal {
        Refusal::new(
            "tool.drift",
            format!("the definition of `{tool}` changed since it was first used"),
        )
        .by("tools.drift")
    }

    pub(crate) fn denied_by_a_person(tool: &str, why: AskReason, rule: &str, note: Option<&str>) -> Refusal {
        let what = match why {
            AskReason::Rule => format!("`{tool}` was refused by a person"),
            AskReason::Drift => format!("the new definition of `{tool}` was refused by a person"),
            AskReason::Unknown => "a person does not want it called again".to_owned(),
        };
        let message = note.map_or(what.clone(), |note| format!("{what}: {note}"));
        Refusal::new("approval.denied", message)
            .in_words_of_others()
            .by(rule)
            .hint("do without it; asking again with the same arguments asks the same person")
    }

    pub(crate) fn unanswered(tool: &str, rule: &str) -> Refusal {
        Refusal::new("approval.timeout", format!("nobody answered in time whether `{tool}` may be called"))
            .by(rule)
            .hint("no answer means no: do without it, or try again when somebody is there; `approvals.timeout` says how long is waited")
    }

    pub(crate) fn withdrawn(tool: &str, rule: &str) -> Refusal {
        Refusal::new(
            "approval.withdrawn",
            format!("the question whether `{tool}` may be called was taken back"),
        )
        .by(rule)
        .hint("call it again if it is still wanted")
    }

    /// Reports that the program is gone, and the effect of its call is unknown.
    pub(crate) fn left(tool: &str) -> Refusal {
        Refusal::new(
            "tool.unknown_effect",
            format!("the program ended while `{tool}` was under way"),
        )
    }

    /// Turns this into the refusal to repeat a call whose effect is unknown.
    pub(crate) fn of_unknown(self, tool: &str) -> Refusal {
        let message = format!(
            "nobody knows whether `{tool}` took effect: it was under way when its process died, and is not called again: {}",
            self.message
        );
        Refusal::new("tool.unknown_effect", message)
            .by("tools.unknown")
            .hint("look whether it took effect before calling it again")
    }
}
