//! The report of an execution: the parts of its events, and the result that people and programs get.

use std::path::Path;

use ringfence_check::TypeErrorLocation;
use ringfence_gateway::ReplayDivergence;
use ringfence_journal::{
    CleanText, ContentHash, EnforcedBy, Enforcement, EventKind, FileIn, OutputHead, RecordedLimits, ResourceUsage,
    TruncationFlags,
};
use ringfence_policy::escape_invisible;
use ringfence_sandbox::{
    AdmissionError, CollectedFiles, ConcludedExecution, EnforcementMechanism, FileChange, JobLanguage, RunProgram,
    SkipCount, SkipReason, SkippedFiles, SpecError, Stop, UncopiedFiles,
};
use serde_json::value::RawValue;

mod answer;
mod lists;
mod types;

pub use answer::ExecutionAnswer;
pub use types::{CallReport, ErrorReport, ExecutionReport, FileReport, TokenReport, ViolationReport};

pub(crate) use answer::serialize_answer;
pub(crate) use lists::{MAX_LISTED, add_calls, fit_calls, fit_violations, memory_bytes};

use crate::execution::call_dispatch::DIVERGED_HINT;
use crate::outcome::{self, ExecutionEnd};
use crate::refusal::RunRefusal;
use crate::request::ExecutionRequest;
use crate::sessions::context::ExecutionContext;

pub(crate) fn started_event(session: &ExecutionContext, request: &ExecutionRequest) -> EventKind {
    let (language, program, code) = match &request.program {
        RunProgram::Code {
            language,
            file_name,
            source,
        }
        | RunProgram::Function {
            language,
            file_name,
            source,
            ..
        } => {
            let name = match language {
                JobLanguage::TypeScript => "typescript",
                JobLanguage::JavaScript => "javascript",
                JobLanguage::Python => "python",
                JobLanguage::Program => "program",
            };
            (name, file_name, source.clone())
        }
        RunProgram::Shell { file_name, source } => ("shell", file_name, source.clone()),
        RunProgram::Named(name) => (
            "program",
            name,
            [std::slice::from_ref(name), &request.args].concat().join("\0"),
        ),
    };
    let limits = session.policy.limits();
    let milliseconds = |duration: std::time::Duration| u64::try_from(duration.as_millis()).ok();
    EventKind::ExecutionStarted {
        language: CleanText::clean(language),
        program: Some(CleanText::clean(program)),
        code: ContentHash::digest(code.as_bytes()),
        bytes: code.len() as u64,
        files: request
            .files
            .iter()
            .map(|file| FileIn {
                path: CleanText::clean(file.name.as_str()),
                bytes: file.from.byte_length(),
            })
            .collect(),
        limits: RecordedLimits {
            wall_ms: milliseconds(request.timeout.map_or(limits.wall, |timeout| timeout.min(limits.wall))),
            cpu_ms: milliseconds(limits.cpu_time),
            memory_bytes: Some(limits.memory.get()),
            processes: Some(u64::from(limits.processes)),
            open_files: Some(u64::from(limits.open_files)),
            disk_bytes: None,
            output_bytes: Some(limits.output.get()),
        },
        client: request.client.clone(),
        parent: session.parent,
    }
}

pub(crate) fn ended_event(
    session: &ExecutionContext,
    execution: &ExecutionReport,
    output: Option<OutputHead>,
) -> EventKind {
    EventKind::ExecutionEnded {
        status: execution.status,
        exit_code: Some(execution.exit_code),
        error: execution.error.as_ref().map(|error| CleanText::clean(&error.code)),
        usage: execution.usage,
        policy: session.policy_ref.digest.clone(),
        truncated: execution.truncated,
        output,
    }
}

pub(crate) fn journal_enforcement(held: &ringfence_sandbox::RuleEnforcement) -> Enforcement {
    let by = match held.mechanism {
        EnforcementMechanism::Cgroup => EnforcedBy::Cgroup,
        EnforcementMechanism::Rlimit => EnforcedBy::Rlimit,
        EnforcementMechanism::Namespace => EnforcedBy::Namespace,
        EnforcementMechanism::Seccomp => EnforcedBy::Seccomp,
        EnforcementMechanism::Landlock => EnforcedBy::Landlock,
        EnforcementMechanism::Quota => EnforcedBy::Quota,
        EnforcementMechanism::Watch => EnforcedBy::Watch,
    };
    Enforcement {
        rule: CleanText::clean(held.rule),
        by,
    }
}

/// The gateway enforces rules about tools, the egress those about the network.
pub(crate) fn gateway_enforcement(rule: &str) -> Enforcement {
    Enforcement {
        rule: CleanText::clean(rule),
        by: EnforcedBy::Gateway,
    }
}

/// The refusal of a policy that names a host folder which cannot be mounted.
pub(crate) fn spec_refusal(error: &SpecError) -> RunRefusal {
    RunRefusal {
        code: "policy.mount",
        message: error.whole(),
        rule: error.rule(),
        hint: Some(error.hint()),
    }
}

/// The refusal of an execution that the machine has no capacity for.
pub(crate) fn budget_refusal(error: &AdmissionError) -> RunRefusal {
    RunRefusal {
        code: "limit.machine",
        message: error.to_string(),
        rule: "sessions.memory".to_owned(),
        hint: Some(error.shortage.hint().to_owned()),
    }
}

pub(crate) fn refused_report(session: &ExecutionContext, refusal: RunRefusal) -> ExecutionReport {
    const REFUSED: i32 = 126;
    let judged = ExecutionEnd {
        status: ringfence_journal::ExecutionStatus::Refused,
        exit_code: REFUSED,
        error: Some(refusal.into()),
        diagnostics: Vec::new(),
    };
    assemble_report(session, judged)
}

/// The report of a direct tool call.
pub(crate) fn direct_call_report(
    session: &ExecutionContext,
    answered: Result<Box<RawValue>, ErrorReport>,
) -> ExecutionReport {
    use ringfence_journal::ExecutionStatus;
    let (value, error) = match answered {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    };
    let judged = ExecutionEnd {
        status: if error.is_none() {
            ExecutionStatus::Completed
        } else {
            ExecutionStatus::Failed
        },
        exit_code: i32::from(error.is_some()),
        error,
        diagnostics: Vec::new(),
    };
    ExecutionReport {
        value,
        ..assemble_report(session, judged)
    }
}

/// The report of an execution that was stopped while it had no sandbox.
pub(crate) fn stopped_report(session: &ExecutionContext, stop: &Stop) -> ExecutionReport {
    assemble_report(session, outcome::judge_stop(stop))
}

/// Fails a repeated program that diverged, whatever it reports itself.
pub(crate) fn fail_diverged(execution: &mut ExecutionReport, diverged: &ReplayDivergence) {
    execution.status = ringfence_journal::ExecutionStatus::Failed;
    execution.exit_code = 1;
    execution.value = None;
    execution.error = Some(ErrorReport {
        code: "replay.diverged".to_owned(),
        message: diverged.to_string(),
        hint: Some(DIVERGED_HINT.to_owned()),
        rule: None,
    });
}

/// The report of a program with type errors, which was not started.
pub(crate) fn type_error_report(session: &ExecutionContext, found: Vec<TypeErrorLocation>) -> ExecutionReport {
    let first = found.first().map_or_else(String::new, |first| {
        format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message)
    });
    let error = ErrorReport {
        code: "program.types".to_owned(),
        message: format!("the program was not run, its types do not fit: {first}"),
        hint: Some("`diagnostics` has all of them; `describe` shows what a tool takes and gives".to_owned()),
        rule: None,
    };
    let judged = ExecutionEnd {
        status: ringfence_journal::ExecutionStatus::Failed,
        exit_code: 1,
        error: Some(error),
        diagnostics: found,
    };
    assemble_report(session, judged)
}

fn assemble_report(session: &ExecutionContext, judged: ExecutionEnd) -> ExecutionReport {
    ExecutionReport {
        execution_id: session.execution,
        session_id: session.id,
        status: judged.status,
        exit_code: judged.exit_code,
        value: None,
        stdout: String::new(),
        stderr: String::new(),
        error: judged.error,
        diagnostics: judged.diagnostics,
        calls: Vec::new(),
        files: Vec::new(),
        left_behind: UncopiedFiles::default(),
        violations: Vec::new(),
        truncated: TruncationFlags::default(),
        usage: ResourceUsage::default(),
        tokens: None,
        whole: None,
        call_bytes: 0,
        most: None,
        enforcement: session.enforcement.clone(),
        policy: session.policy_ref.clone(),
    }
}

pub(crate) fn finished_report(
    session: &ExecutionContext,
    ended: &ConcludedExecution,
    collected: &CollectedFiles,
    output: &(Vec<u8>, Vec<u8>),
) -> ExecutionReport {
    let mut judged = outcome::judge_end(ended);
    let has_value = ended.outcome.as_ref().is_some_and(|outcome| outcome.has_value);
    let value = has_value.then(|| serde_json::from_slice::<Box<RawValue>>(&ended.value));
    if let Some(Err(_)) = &value {
        judged = outcome::value_not_json();
    }
    let (stdout, stderr) = (output.0.len() as u64, output.1.len() as u64);
    let truncated = TruncationFlags {
        stdout: ended.output_bytes.0 > stdout,
        stderr: ended.output_bytes.1 > stderr,
        value: false,
    };
    let milliseconds = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut violations: Vec<ViolationReport> = ended
        .violations
        .iter()
        .map(|one| ViolationReport {
            kind: one.kind.to_owned(),
            detail: one.detail.clone(),
            rule: one.rule.to_owned(),
        })
        .collect();
    if ended.more_violations > 0 {
        violations.push(ViolationReport {
            kind: "syscall".to_owned(),
            detail: format!("{} more", ended.more_violations),
            rule: "proc.syscalls".to_owned(),
        });
    }
    violations.extend(withheld_violations(collected));
    ExecutionReport {
        value: value.and_then(Result::ok),
        stdout: String::from_utf8_lossy(&output.0).into_owned(),
        stderr: String::from_utf8_lossy(&output.1).into_owned(),
        files: collected.files.iter().map(file_report).collect(),
        violations,
        truncated,
        usage: ResourceUsage {
            wall_ms: milliseconds(ended.usage.wall),
            cpu_ms: milliseconds(ended.usage.cpu),
            peak_memory_bytes: ended.usage.peak_memory,
            peak_tmpfs_bytes: ended.usage.peak_tmpfs,
            calls: 0,
            egress_bytes: 0,
        },
        ..assemble_report(session, judged)
    }
}

/// Violations of emitted files that may not leave, each with the rule that keeps it, and of all else that was left behind.
pub(crate) fn withheld_violations(collected: &CollectedFiles) -> impl Iterator<Item = ViolationReport> {
    let named = collected.withheld.iter().map(|(path, reason)| ViolationReport {
        kind: "file".to_owned(),
        detail: format!("{}: {}", quoted(path), reason.description()),
        rule: reason.rule().to_owned(),
    });
    let is_named = |path: &str| collected.withheld.iter().any(|(named, _)| named == path);
    let left = left_behind_violations(&collected.skipped, move |left| left.count > 1 || !is_named(&left.first));
    named.chain(left)
}

/// Violations of files that were left behind, one for each reason: how many, what helps, and the rule.
pub(crate) fn left_behind_violations<'a>(
    skipped: &'a SkippedFiles,
    is_told: impl Fn(&SkipCount) -> bool + 'a,
) -> impl Iterator<Item = ViolationReport> + 'a {
    let told = skipped.counts().filter(move |(_, left)| is_told(left));
    told.map(|(reason, left)| {
        let more = match left.count {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        ViolationReport {
            kind: "file".to_owned(),
            detail: format!(
                "{}{more} left behind: {}; {}",
                quoted(&left.first),
                reason.description(),
                reason.hint()
            ),
            rule: reason.rule().to_owned(),
        }
    })
}

/// A name from the sandbox in quotation marks: it cannot pass for our words, and its control characters are escaped.
fn quoted(name: &str) -> String {
    format!("`{}`", escape_invisible(name).replace('`', "\\u{60}"))
}

/// Fails a run whose files were not copied because the folder has others of the same names.
pub(crate) fn fail_not_overwritten(execution: &mut ExecutionReport, skipped: &SkippedFiles, to: &Path) {
    let existing = skipped
        .counts()
        .find(|(reason, _)| matches!(reason, SkipReason::Exists | SkipReason::Occupied));
    let Some((_, left)) = existing.filter(|_| execution.exit_code == 0) else {
        return;
    };
    let (first, folder) = (quoted(&left.first), to.display());
    let message = match left.count {
        0 | 1 => format!("{first} was not copied: `{folder}` has another file of that name"),
        count => format!(
            "{first} and {} more were not copied: `{folder}` has files of those names",
            count - 1
        ),
    };
    execution.status = ringfence_journal::ExecutionStatus::Failed;
    execution.exit_code = EXIT_NOT_COPIED;
    execution.error = Some(ErrorReport {
        code: "files.exist".to_owned(),
        message,
        hint: Some("add `--force` to overwrite, or name another folder".to_owned()),
        rule: None,
    });
}

/// The exit code of a run whose files were not copied to their folder.
const EXIT_NOT_COPIED: i32 = 125;

/// Bytes of JSON in one token, approximately.
const BYTES_PER_TOKEN: u64 = 4;

/// Counts the tokens of a result, and those that its calls would have cost.
pub(crate) fn count_tokens(execution: &mut ExecutionReport) {
    if execution.calls.is_empty() {
        return;
    }
    let value = execution.value.as_ref().map_or("", |value| value.get());
    let text = [value, &execution.stdout, &execution.stderr];
    let returned = text
        .iter()
        .map(|text| ringfence_catalog::tokens::count_tokens(text) as u64)
        .sum();
    execution.tokens = Some(TokenReport {
        returned,
        avoided: (execution.call_bytes / BYTES_PER_TOKEN).saturating_sub(returned),
    });
}

fn file_report(file: &ringfence_sandbox::WorkspaceFile) -> FileReport {
    let change = match file.change {
        FileChange::Created => "created",
        FileChange::Changed => "changed",
        FileChange::Unchanged => "same",
    };
    FileReport {
        path: file.path.as_str().to_owned(),
        bytes: file.bytes,
        sha256: file.sha256.clone(),
        change,
        emitted: file.emitted.is_some(),
        media_type: file.emitted.clone(),
    }
}
