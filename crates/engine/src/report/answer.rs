//! An execution report as `--json` and the JSON API serialise it: the same object, with a limited list of files.

use std::borrow::Cow;

use ringfence_journal::TruncationFlags;
use ringfence_sandbox::UncopiedFile;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::lists::listed_files;
use crate::report::{CallReport, ErrorReport, ExecutionReport, FileReport, TokenReport, ViolationReport};

/// A report whose `files` are cut to the limit of an answer; `truncated.files` counts those that are not listed.
#[derive(Debug, Serialize)]
pub struct ExecutionAnswer<'a> {
    execution_id: ringfence_journal::ExecutionId,
    session_id: ringfence_journal::SessionId,
    status: ringfence_journal::ExecutionStatus,
    exit_code: i32,
    value: Option<&'a RawValue>,
    stdout: &'a str,
    stderr: &'a str,
    error: Option<Cow<'a, ErrorReport>>,
    diagnostics: &'a [ringfence_check::TypeErrorLocation],
    calls: &'a [CallReport],
    files: &'a [FileReport],
    #[serde(skip_serializing_if = "<[UncopiedFile]>::is_empty")]
    left_behind: &'a [UncopiedFile],
    violations: &'a [ViolationReport],
    truncated: AnswerTruncated,
    usage: ringfence_journal::ResourceUsage,
    tokens: Option<TokenReport>,
    enforcement: &'a [ringfence_journal::Enforcement],
    policy: &'a ringfence_journal::PolicyRef,
}

/// Serialises a report that is part of another answer.
pub(crate) fn serialize_answer<S: Serializer>(execution: &ExecutionReport, serializer: S) -> Result<S::Ok, S::Error> {
    ExecutionAnswer::from(execution).serialize(serializer)
}

/// What was cut, and how many files are not listed.
#[derive(Debug, Serialize)]
struct AnswerTruncated {
    #[serde(flatten)]
    output: TruncationFlags,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<usize>,
    /// Files that were left behind and are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_behind: Option<u64>,
}

impl ExecutionAnswer<'_> {
    /// The same answer, with its hint in the terms of its reader.
    #[must_use]
    pub fn map_hint(mut self, words: impl FnOnce(&str) -> String) -> Self {
        if let Some(error) = &mut self.error
            && let Some(hint) = error.hint.as_deref().map(words)
        {
            error.to_mut().hint = Some(hint);
        }
        self
    }
}

impl<'a> From<&'a ExecutionReport> for ExecutionAnswer<'a> {
    fn from(execution: &'a ExecutionReport) -> ExecutionAnswer<'a> {
        // Each field is named, so that a new one cannot be forgotten here.
        let ExecutionReport {
            execution_id,
            session_id,
            status,
            exit_code,
            value,
            stdout,
            stderr,
            error,
            diagnostics,
            calls,
            files,
            left_behind,
            violations,
            truncated,
            usage,
            tokens,
            whole: _,
            call_bytes: _,
            most: _,
            enforcement,
            policy,
        } = execution;
        let listed = listed_files(files);
        let left_out = files.len() - listed.len();
        ExecutionAnswer {
            execution_id: *execution_id,
            session_id: *session_id,
            status: *status,
            exit_code: *exit_code,
            value: value.as_deref(),
            stdout,
            stderr,
            error: error.as_ref().map(Cow::Borrowed),
            diagnostics,
            calls,
            files: listed,
            left_behind: &left_behind.files,
            violations,
            truncated: AnswerTruncated {
                output: *truncated,
                files: (left_out > 0).then_some(left_out),
                left_behind: Some(left_behind.more).filter(|more| *more > 0),
            },
            usage: *usage,
            tokens: *tokens,
            enforcement,
            policy,
        }
    }
}
