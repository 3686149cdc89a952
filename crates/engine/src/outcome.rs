//! Turns what the sandbox saw into what people get: status, exit code, error, diagnostics.

use ringfence_check::Location;
use ringfence_journal::{Status, Text};
use ringfence_sandbox::{Ended, Fault, Limit, Outcome, OutcomeKind, Refusal, Stop, Verdict};

use crate::door::DIVERGED_HINT;
use crate::execution::ErrorReport;

/// How an execution ended, in the terms of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) status: Status,
    pub(crate) exit_code: i32,
    pub(crate) error: Option<ErrorReport>,
    pub(crate) diagnostics: Vec<Location>,
}

const TIMED_OUT: i32 = 124;
const NOT_FOUND: i32 = 127;
const CANCELLED: i32 = 130;
const KILLED: i32 = 137;

pub(crate) fn judge(ended: &Ended) -> Judged {
    match (ended.verdict, &ended.outcome) {
        (Verdict::Limit(limit), _) => limit_reached(limit),
        (Verdict::Cancelled, _) => cancelled(),
        (Verdict::Overdue, _) => overdue(),
        (Verdict::Finished, Some(outcome)) => claimed(outcome, ended.refused.as_ref()),
        (Verdict::Finished | Verdict::Died | Verdict::Released { .. }, _) => plain(
            Status::Killed,
            KILLED,
            "sandbox.died",
            "the process of the execution ended without a word",
            Some("it was killed from inside, or its engine crashed, as by endless recursion in native code"),
        ),
    }
}

fn plain(status: Status, exit_code: i32, code: &str, message: &str, hint: Option<&str>) -> Judged {
    let error = ErrorReport {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
        rule: None,
    };
    Judged {
        status,
        exit_code,
        error: Some(error),
        diagnostics: Vec::new(),
    }
}

/// The end of an execution without a sandbox: cancelled or timed out.
pub(crate) fn stopped(stop: &Stop) -> Judged {
    if stop.is_overdue() { overdue() } else { cancelled() }
}

fn overdue() -> Judged {
    Judged {
        status: Status::TimedOut,
        exit_code: TIMED_OUT,
        error: Some(crate::refusal::Refusal::overdue().into()),
        diagnostics: Vec::new(),
    }
}

fn cancelled() -> Judged {
    plain(
        Status::Cancelled,
        CANCELLED,
        "cancelled",
        "the execution was stopped",
        None,
    )
}

fn limit_reached(limit: Limit) -> Judged {
    let (status, exit_code) = match limit {
        Limit::Wall | Limit::Cpu => (Status::TimedOut, TIMED_OUT),
        Limit::Memory | Limit::Processes | Limit::Disk | Limit::Inodes | Limit::Output => (Status::Killed, KILLED),
    };
    let hint = format!(
        "raise it with `--set {}=…` if the operator's ceiling allows, or do less at once",
        limit.rule()
    );
    let mut judged = plain(status, exit_code, limit.code(), limit.sentence(), Some(&hint));
    if let Some(error) = &mut judged.error {
        error.rule = Some(limit.rule().to_owned());
    }
    judged
}

/// The program's own end, as its process reports it. The code is always one for a program's end, and rule and hint come from the host:
/// those of a refusal that the host issued to this execution, or those that belong to the code.
fn claimed(outcome: &Outcome, refused: Option<&Refusal>) -> Judged {
    let diagnostics: Vec<Location> = outcome
        .diagnostics
        .iter()
        .map(|found| Location {
            file: found.file.to_string(),
            line: found.line,
            column: found.column,
            code: found.code.to_string(),
            message: found.message.to_string(),
        })
        .collect();
    let code = match outcome.kind {
        OutcomeKind::Completed => {
            return Judged {
                status: Status::Completed,
                exit_code: 0,
                error: None,
                diagnostics,
            };
        }
        OutcomeKind::SyntaxError => {
            let message = diagnostics.first().map_or_else(
                || "the source is not a program".to_owned(),
                |first| format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message),
            );
            let mut judged = plain(Status::Failed, 1, "program.syntax", &message, None);
            judged.diagnostics = diagnostics;
            return judged;
        }
        // The host neither stopped it nor saw its group exceed a limit: this is only the program's claim.
        OutcomeKind::Cancelled => {
            return plain(Status::Failed, 1, "program.failed", "the program stopped itself", None);
        }
        OutcomeKind::OutOfMemory => return plain(Status::Failed, 1, MEMORY.0, OUT_OF_MEMORY, Some(MEMORY.1)),
        OutcomeKind::ImportRefused => "import.refused",
        OutcomeKind::NotJson => "value.not_json",
        OutcomeKind::Stuck => "program.stuck",
        OutcomeKind::Diverged => "replay.diverged",
        OutcomeKind::NoSuchProgram => "program.not_found",
        OutcomeKind::Failed => outcome
            .error
            .as_ref()
            .map_or(FAILED, |fault| failure(fault.code.as_str())),
    };
    let exit_code = match outcome.exit_code {
        _ if outcome.kind == OutcomeKind::NoSuchProgram => NOT_FOUND,
        // A failed program does not exit with 0.
        0 => 1,
        code => code,
    };
    let error = outcome.error.as_ref().map(|fault| match refused {
        Some(refused) => issued(fault, refused),
        None => report(fault, code),
    });
    Judged {
        status: Status::Failed,
        exit_code,
        error,
        diagnostics,
    }
}

const FAILED: &str = "program.failed";
const MEMORY: (&str, &str) = ("program.memory", "ask for less at once, or raise `proc.mem_limit`");
const OUT_OF_MEMORY: &str = "the program says that it had no memory left";

/// Failures that our side of a sandbox reports, each with its hint. Any other code is a failure of the program.
const FAILURES: [(&str, Option<&str>); 6] = [
    ("program.input", None),
    ("program.network", None),
    ("program.start", None),
    (
        "program.too_large",
        Some("bring it in with `--file`, and run it from there"),
    ),
    ("python.ended", None),
    (
        "value.too_large",
        Some("write it to a file in the workspace, and give back a summary"),
    ),
];

fn failure(claimed: &str) -> &'static str {
    let known = FAILURES.iter().find(|(code, _)| *code == claimed);
    known.map_or(FAILED, |(code, _)| code)
}

/// What to do about a program's failure; none where nothing helps.
fn hint(code: &str) -> Option<&'static str> {
    match code {
        "import.refused" => Some(
            "only `tools` and `skills` can be imported, and in Python the standard library and `/deps`; the helpers need no import",
        ),
        "value.not_json" => Some("give back plain objects, lists, strings and numbers"),
        "program.stuck" => {
            Some("every awaited promise needs something that resolves it: a timer, a file, or a tool call")
        }
        "program.not_found" => Some("programs come from the folders of `PATH`, or from a mount of the policy"),
        "replay.diverged" => Some(DIVERGED_HINT),
        _ => FAILURES.iter().find(|(known, _)| *known == code)?.1,
    }
}

fn report(fault: &Fault, code: &str) -> ErrorReport {
    ErrorReport {
        code: code.to_owned(),
        message: format!("{}{}", place(fault), fault.message),
        hint: hint(code).map(str::to_owned),
        rule: None,
    }
}

/// A refusal of the host that the program did not catch, at the place where it occurred.
fn issued(fault: &Fault, refused: &Refusal) -> ErrorReport {
    ErrorReport {
        code: refused.code.clone(),
        message: format!("{}{}", place(fault), refused.message),
        hint: refused.hint.clone(),
        rule: refused.rule.clone(),
    }
}

fn place(fault: &Fault) -> String {
    if fault.line > 0 {
        format!("{}:{}:{}: ", Text::clean(&fault.file), fault.line, fault.column)
    } else {
        String::new()
    }
}

/// The worker claims a value that is not JSON: the claim is not believed.
pub(crate) fn not_json() -> Judged {
    plain(Status::Failed, 1, "value.not_json", "the value is not JSON", None)
}

#[cfg(test)]
mod tests;
