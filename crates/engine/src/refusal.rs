//! A refusal says why something does not start: a value, not an error.

use std::fmt;

use ringfence_policy::{AllowedPrograms, Policy};

use crate::execution::ErrorReport;
use crate::request::Program;

/// A refusal, with the rule that refuses and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable code such as `policy.parse`.
    pub code: &'static str,
    /// One sentence, without a period.
    pub message: String,
    /// The policy key that refuses, or another name of the rule.
    pub rule: String,
    /// What to do next; none where nothing helps.
    pub hint: Option<String>,
}

impl From<Refusal> for ErrorReport {
    fn from(refusal: Refusal) -> ErrorReport {
        ErrorReport {
            code: refusal.code.to_owned(),
            message: refusal.message,
            hint: refusal.hint,
            rule: Some(refusal.rule),
        }
    }
}

impl Refusal {
    /// The refusal of a run whose time is over; the time that it waits counts too.
    pub(crate) fn overdue() -> Refusal {
        Refusal {
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
    pub(crate) fn of_program(policy: &Policy, program: &Program) -> Option<Refusal> {
        let what = match program {
            Program::Code { .. } | Program::Function { .. } => return None,
            Program::Shell { .. } => "a shell script",
            Program::Named(_) => "a program",
        };
        (policy.limits().programs == AllowedPrograms::None).then(|| Refusal {
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; hint: {hint}"))
    }
}
