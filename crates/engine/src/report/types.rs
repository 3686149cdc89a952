//! The report of an execution, for people and programs: the one object that `--json`, MCP and the API return.

use ringfence_check::TypeErrorLocation;
use ringfence_journal::{ExecutionId, ExecutionStatus, ResourceUsage, SessionId, TruncationFlags};
use ringfence_sandbox::UncopiedFiles;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::redact::FullOutput;

/// The report of an execution that has ended.
#[derive(Debug, Serialize)]
pub struct ExecutionReport {
    /// The id of the execution.
    pub execution_id: ExecutionId,
    /// The session that the execution ran in.
    pub session_id: SessionId,
    /// How the execution ended: completed, failed, killed and so on.
    pub status: ExecutionStatus,
    /// The program's exit code, or the one that stands for how it ended.
    pub exit_code: i32,
    /// The program's value as JSON; none where it has no value or the reader may not see it.
    pub value: Option<Box<RawValue>>,
    /// The program's standard output, cut to what its reader is shown.
    pub stdout: String,
    /// The program's standard error, cut in the same way.
    pub stderr: String,
    /// Why the execution failed; none where it completed.
    pub error: Option<ErrorReport>,
    /// Findings in the source, such as type errors.
    pub diagnostics: Vec<TypeErrorLocation>,
    /// Tool calls: the first ones in full, then counts of further ones.
    pub calls: Vec<CallReport>,
    /// Files that the program emits, then new and changed ones.
    pub files: Vec<FileReport>,
    /// Files that did not go to the folder that they were to be copied to.
    #[serde(skip)]
    pub left_behind: UncopiedFiles,
    /// What the program tried and was refused.
    pub violations: Vec<ViolationReport>,
    /// Which of value and outputs were cut.
    pub truncated: TruncationFlags,
    /// The resources that the execution used.
    pub usage: ResourceUsage,
    /// The tokens that it costs and saves a model; none without tool calls.
    pub tokens: Option<TokenReport>,
    /// The full output, redacted, of what was cut; none where nothing was.
    #[serde(skip)]
    pub whole: Option<Box<FullOutput>>,
    /// Bytes of the arguments and results of all its calls.
    #[serde(skip)]
    pub call_bytes: u64,
    /// The most bytes that its reader is shown; none: no limit.
    #[serde(skip)]
    pub most: Option<usize>,
    /// The mechanism that enforces each rule.
    pub enforcement: Vec<ringfence_journal::Enforcement>,
    /// The policy in force, by name and digest.
    pub policy: ringfence_journal::PolicyRef,
}

/// An error as people and programs get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// A stable code such as `policy.parse`.
    pub code: String,
    /// What went wrong, as a text for people.
    pub message: String,
    /// What to do next; none where nothing helps.
    pub hint: Option<String>,
    /// The policy key that decided; none where no rule did.
    pub rule: Option<String>,
}

/// A tool call, or a count of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallReport {
    /// The number that the program gave it, from 1; 0 where it stands for several.
    pub number: u32,
    /// The tool's full name, `server.tool`.
    pub tool: String,
    /// `ok`, `failed`, `broken`, `timed_out`, `unknown` or `refused`.
    pub outcome: &'static str,
    /// The rule that decided; none where none did.
    pub rule: Option<String>,
    /// The duration of the call in milliseconds.
    pub duration_ms: u64,
    /// Bytes of the arguments.
    pub bytes_in: u64,
    /// Bytes of the result.
    pub bytes_out: u64,
    /// How many calls of this kind are not listed; none for a single call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// What a result costs a model and saves it, in tokens of `o200k_base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokenReport {
    /// The tokens of this result: value, output and error.
    pub returned: u64,
    /// The tokens that the tool results would have cost, at about four bytes a token.
    pub avoided: u64,
}

/// A file that is new or changed, or that the program emits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The path below the workspace.
    pub path: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of its content, in hexadecimal.
    pub sha256: String,
    /// `created`, `changed`, or `same` for an emitted file that did not change.
    pub change: &'static str,
    /// Whether the program emits the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emitted: bool,
    /// The media type that the program gives an emitted file, such as `text/csv`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Something that the program tried and was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViolationReport {
    /// The kind of violation, such as `net`, `tool` or `file`.
    pub kind: String,
    /// What the program tried, as a short text.
    pub detail: String,
    /// The rule that refused it.
    pub rule: String,
}
