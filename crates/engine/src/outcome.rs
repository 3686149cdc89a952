//! From what the sandbox saw to what people are told: status, exit code, error, diagnostics.

use ringfence_check::Location;
use ringfence_journal::Status;
use ringfence_sandbox::{Ended, Fault, Limit, Outcome, OutcomeKind, Verdict};

use crate::execution::ErrorReport;

/// How an execution ended, in the words of the contract.
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
        (Verdict::Finished, Some(outcome)) => claimed(outcome),
        (Verdict::Finished | Verdict::Died | Verdict::Released { .. }, _) => plain(
            Status::Killed,
            KILLED,
            "sandbox.died",
            "the process of the execution ended without a word",
            Some("a crash of the engine, such as endless recursion in native code, looks like this"),
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

pub(crate) fn cancelled() -> Judged {
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
    let message = match limit {
        Limit::Wall => "the execution took longer than its wall time",
        Limit::Cpu => "the execution used up its processor time",
        Limit::Memory => "the execution used more memory than it may",
        Limit::Processes => "the execution started more processes than it may",
        Limit::Disk => "the execution filled a writable place",
        Limit::Inodes => "the execution made more files than it may",
        Limit::Output => "the execution printed far more than it may",
    };
    let hint = format!(
        "raise it with `--set {}=…` if the operator's ceiling allows, or do less at once",
        limit.rule()
    );
    let mut judged = plain(status, exit_code, limit.code(), message, Some(&hint));
    if let Some(error) = &mut judged.error {
        error.rule = Some(limit.rule().to_owned());
    }
    judged
}

/// The program's own end, as its child told it.
fn claimed(outcome: &Outcome) -> Judged {
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
    match outcome.kind {
        OutcomeKind::Completed => Judged {
            status: Status::Completed,
            exit_code: 0,
            error: None,
            diagnostics,
        },
        OutcomeKind::OutOfMemory => limit_reached(Limit::Memory),
        OutcomeKind::Cancelled => cancelled(),
        OutcomeKind::SyntaxError => {
            let message = diagnostics.first().map_or_else(
                || "the source is not a program".to_owned(),
                |first| format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message),
            );
            let mut judged = plain(Status::Failed, 1, "program.syntax", &message, None);
            judged.diagnostics = diagnostics;
            judged
        }
        OutcomeKind::Failed
        | OutcomeKind::NoSuchProgram
        | OutcomeKind::ImportRefused
        | OutcomeKind::NotJson
        | OutcomeKind::Stuck
        | OutcomeKind::Diverged => {
            let not_found = outcome.kind == OutcomeKind::NoSuchProgram;
            let exit_code = if not_found { NOT_FOUND } else { outcome.exit_code };
            let error = outcome.error.as_ref().map(report);
            Judged {
                status: Status::Failed,
                exit_code,
                error,
                diagnostics,
            }
        }
    }
}

fn report(fault: &Fault) -> ErrorReport {
    let place = if fault.line > 0 {
        format!("{}:{}:{}: ", fault.file, fault.line, fault.column)
    } else {
        String::new()
    };
    ErrorReport {
        code: fault.code.to_string(),
        message: format!("{place}{}", fault.message),
        hint: fault.hint.as_ref().map(ToString::to_string),
        rule: fault.rule.as_ref().map(ToString::to_string),
    }
}

/// The worker said there is a value, and it is no JSON: a claim that is not believed.
pub(crate) fn not_json() -> Judged {
    plain(Status::Failed, 1, "value.not_json", "the value is not JSON", None)
}
