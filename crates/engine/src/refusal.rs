//! A refusal says why something does not start: a value, not an error.

use std::fmt;

use ringfence_journal::{CleanText, EventKind};
use ringfence_policy::{AllowedPrograms, Policy};
use ringfence_sandbox::RunProgram;

use crate::report::ErrorReport;

/// A refusal, with the rule that refuses and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRefusal {
    /// A stable code such as `policy.parse`.
    pub code: &'static str,
    /// One sentence, without a period.
    pub message: String,
    /// The policy key that refuses, or another name of the rule.
    pub rule: String,
    /// What to do next; none where nothing helps.
    pub hint: Option<String>,
}

impl From<RunRefusal> for ErrorReport {
    fn from(refusal: RunRefusal) -> ErrorReport {
        let refusal = refusal.shortened();
        ErrorReport {
            code: refusal.code.to_owned(),
            message: refusal.message,
            hint: refusal.hint,
            rule: Some(refusal.rule),
        }
    }
}

/// Bytes of each text of a refusal at most: a request decides what it names.
const MAX_TEXT_BYTES: usize = 4 << 10;

impl RunRefusal {
    /// The refusal with texts of a bounded length.
    pub(crate) fn shortened(self) -> RunRefusal {
        RunRefusal {
            message: shorten(self.message),
            rule: shorten(self.rule),
            hint: self.hint.map(shorten),
            ..self
        }
    }

    /// The event that records the refusal.
    pub(crate) fn to_event(&self) -> EventKind {
        let RunRefusal { code, rule, hint, .. } = self.clone().shortened();
        EventKind::Refused {
            code: CleanText::clean(code),
            rule: CleanText::clean(&rule),
            hint: hint.as_deref().map(CleanText::clean),
        }
    }

    /// The refusal of a run whose time is over; the time that it waits counts too.
    pub(crate) fn deadline_passed() -> RunRefusal {
        RunRefusal {
            code: "limit.wall",
            message: "the run took longer than its timeout, with all that it waited for".to_owned(),
            rule: "timeout".to_owned(),
            hint: Some(
                "give it a longer `--timeout`, or none: `proc.wall_timeout` limits the program's own time, without waiting"
                    .to_owned(),
            ),
        }
    }

    /// Refuses a program that the policy does not allow to start because it allows only code in the engines.
    pub(crate) fn check_program(policy: &Policy, program: &RunProgram) -> Option<RunRefusal> {
        let what = match program {
            RunProgram::Code { .. } | RunProgram::Function { .. } => return None,
            RunProgram::Shell { .. } => "a shell script",
            RunProgram::Named(_) => "a program",
        };
        (policy.limits().programs == AllowedPrograms::None).then(|| RunRefusal {
            code: "policy.programs",
            message: format!("`proc.programs` is none: {what} is not run, only code on the engines"),
            rule: "proc.programs".to_owned(),
            hint: Some(
                "write it in TypeScript, JavaScript or Python, or use a policy with `proc.programs: all`, such as `level-2`"
                    .to_owned(),
            ),
        })
    }
}

fn shorten(mut text: String) -> String {
    const CUT: &str = "…";
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES - CUT.len()));
        text.push_str(CUT);
        // What was cut is not kept either.
        text.shrink_to_fit();
    }
    text
}

impl fmt::Display for RunRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; hint: {hint}"))
    }
}

#[cfg(test)]
mod tests;
