//! Turns what the sandbox saw into what people get: status, exit code, error, diagnostics.

use ringfence_check::TypeErrorLocation;
use ringfence_journal::{CleanText, ExecutionStatus};
use ringfence_sandbox::{
    ConcludedExecution, ExecutionLimit, JobFailure, JobOutcome, JobOutcomeKind, Stop, ToolRefusal, Verdict,
};

use crate::execution::call_dispatch::DIVERGED_HINT;
use crate::report::ErrorReport;

/// How an execution ended, in the terms of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionEnd {
    pub(crate) status: ExecutionStatus,
    pub(crate) exit_code: i32,
    pub(crate) error: Option<ErrorReport>,
    pub(crate) diagnostics: Vec<TypeErrorLocation>,
}

const EXIT_TIMED_OUT: i32 = 124;
const EXIT_NOT_FOUND: i32 = 127;
const EXIT_CANCELLED: i32 = 130;
const EXIT_KILLED: i32 = 137;

pub(crate) fn judge_end(ended: &ConcludedExecution) -> ExecutionEnd {
    match (ended.verdict, &ended.outcome) {
        (Verdict::Limit(limit), _) => limit_reached(limit),
        (Verdict::Cancelled, _) => cancelled(),
        (Verdict::Overdue, _) => timed_out(),
        (Verdict::Finished, Some(outcome)) => judge_program_end(outcome, ended.refused.as_ref()),
        (Verdict::Finished | Verdict::Died | Verdict::Released { .. }, _) => ended_with(
            ExecutionStatus::Killed,
            EXIT_KILLED,
            "sandbox.died",
            "the process of the execution ended without a word",
            Some("it was killed from inside, or its engine crashed, as by endless recursion in native code"),
        ),
    }
}

fn ended_with(status: ExecutionStatus, exit_code: i32, code: &str, message: &str, hint: Option<&str>) -> ExecutionEnd {
    let error = ErrorReport {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
        rule: None,
    };
    ExecutionEnd {
        status,
        exit_code,
        error: Some(error),
        diagnostics: Vec::new(),
    }
}

/// The end of an execution without a sandbox: cancelled or timed out.
pub(crate) fn judge_stop(stop: &Stop) -> ExecutionEnd {
    if stop.is_overdue() { timed_out() } else { cancelled() }
}

fn timed_out() -> ExecutionEnd {
    ExecutionEnd {
        status: ExecutionStatus::TimedOut,
        exit_code: EXIT_TIMED_OUT,
        error: Some(crate::refusal::RunRefusal::deadline_passed().into()),
        diagnostics: Vec::new(),
    }
}

fn cancelled() -> ExecutionEnd {
    ended_with(
        ExecutionStatus::Cancelled,
        EXIT_CANCELLED,
        "cancelled",
        "the execution was stopped",
        None,
    )
}

fn limit_reached(limit: ExecutionLimit) -> ExecutionEnd {
    let (status, exit_code) = match limit {
        ExecutionLimit::Wall | ExecutionLimit::Cpu => (ExecutionStatus::TimedOut, EXIT_TIMED_OUT),
        ExecutionLimit::Memory
        | ExecutionLimit::Processes
        | ExecutionLimit::Disk
        | ExecutionLimit::Inodes
        | ExecutionLimit::Output => (ExecutionStatus::Killed, EXIT_KILLED),
    };
    let hint = format!(
        "raise it with `--set {}=…` if the operator's ceiling allows, or do less at once",
        limit.rule()
    );
    let mut judged = ended_with(status, exit_code, limit.code(), limit.description(), Some(&hint));
    if let Some(error) = &mut judged.error {
        error.rule = Some(limit.rule().to_owned());
    }
    judged
}

fn reported_diagnostics(outcome: &JobOutcome) -> Vec<TypeErrorLocation> {
    let locations = outcome.diagnostics.iter().map(|found| TypeErrorLocation {
        file: found.file.to_string(),
        line: found.line,
        column: found.column,
        code: found.code.to_string(),
        message: found.message.to_string(),
    });
    locations.collect()
}

/// The program's own end, as its process reports it. The code is always one for a program's end, and rule and hint come from the host:
/// those of a refusal that the host issued to this execution, or those that belong to the code.
fn judge_program_end(outcome: &JobOutcome, refused: Option<&ToolRefusal>) -> ExecutionEnd {
    let diagnostics = reported_diagnostics(outcome);
    let code = match outcome.kind {
        JobOutcomeKind::Completed => {
            return ExecutionEnd {
                status: ExecutionStatus::Completed,
                exit_code: 0,
                error: None,
                diagnostics,
            };
        }
        JobOutcomeKind::SyntaxError => {
            let message = diagnostics.first().map_or_else(
                || "the source is not a program".to_owned(),
                |first| format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message),
            );
            let mut judged = ended_with(ExecutionStatus::Failed, 1, "program.syntax", &message, None);
            judged.diagnostics = diagnostics;
            return judged;
        }
        // The host neither stopped it nor saw its group exceed a limit: this is only the program's claim.
        JobOutcomeKind::Cancelled => {
            return ended_with(
                ExecutionStatus::Failed,
                1,
                "program.failed",
                "the program stopped itself",
                None,
            );
        }
        // Without a group the sandbox has made this a limit already; a group's limit kills, so this is a claim too.
        JobOutcomeKind::OutOfMemory => {
            return ended_with(ExecutionStatus::Failed, 1, PROGRAM_FAILED, OUT_OF_MEMORY, None);
        }
        JobOutcomeKind::ImportRefused => "import.refused",
        JobOutcomeKind::NotJson => "value.not_json",
        JobOutcomeKind::Stuck => "program.stuck",
        JobOutcomeKind::Diverged => "replay.diverged",
        JobOutcomeKind::NoSuchProgram => "program.not_found",
        JobOutcomeKind::Failed => outcome
            .error
            .as_ref()
            .map_or(PROGRAM_FAILED, |fault| known_failure_code(fault.code.as_str())),
    };
    let exit_code = match outcome.exit_code {
        _ if outcome.kind == JobOutcomeKind::NoSuchProgram => EXIT_NOT_FOUND,
        // A failed program does not exit with 0.
        0 => 1,
        code => code,
    };
    let error = outcome.error.as_ref().map(|fault| match refused {
        Some(refused) => refusal_error(fault, refused),
        None => program_error(fault, code),
    });
    ExecutionEnd {
        status: ExecutionStatus::Failed,
        exit_code,
        error,
        diagnostics,
    }
}

const PROGRAM_FAILED: &str = "program.failed";
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

fn known_failure_code(claimed: &str) -> &'static str {
    let known = FAILURES.iter().find(|(code, _)| *code == claimed);
    known.map_or(PROGRAM_FAILED, |(code, _)| code)
}

/// What to do about a program's failure; none where nothing helps.
fn failure_hint(code: &str) -> Option<&'static str> {
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

fn program_error(fault: &JobFailure, code: &str) -> ErrorReport {
    ErrorReport {
        code: code.to_owned(),
        message: format!("{}{}", source_position(fault), fault.message),
        hint: failure_hint(code).map(str::to_owned),
        rule: None,
    }
}

/// A refusal of the host that the program did not catch, at the place where it occurred.
fn refusal_error(fault: &JobFailure, refused: &ToolRefusal) -> ErrorReport {
    ErrorReport {
        code: refused.code.clone(),
        message: format!("{}{}", source_position(fault), refused.message),
        hint: refused.hint.clone(),
        rule: refused.rule.clone(),
    }
}

fn source_position(fault: &JobFailure) -> String {
    if fault.line > 0 {
        format!("{}:{}:{}: ", CleanText::clean(&fault.file), fault.line, fault.column)
    } else {
        String::new()
    }
}

/// The worker claims a value that is not JSON: the claim is not believed.
pub(crate) fn value_not_json() -> ExecutionEnd {
    ended_with(
        ExecutionStatus::Failed,
        1,
        "value.not_json",
        "the value is not JSON",
        None,
    )
}

#[cfg(test)]
mod tests;
