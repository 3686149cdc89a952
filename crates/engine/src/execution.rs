//! What an execution was, for people and programs: the one object that `--json`, MCP and the API return.

use ringfence_check::Location;
use ringfence_journal::{ExecutionId, SessionId, Status, Truncated, Usage};
use ringfence_sandbox::LeftBehind;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::shown::Whole;

/// An execution that is over.
#[derive(Debug, Serialize)]
pub struct Execution {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Its session.
    pub session_id: SessionId,
    /// How it ended.
    pub status: Status,
    /// The program's exit code, or the one its end stands for.
    pub exit_code: i32,
    /// Its value.
    pub value: Option<Box<RawValue>>,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// What went wrong.
    pub error: Option<ErrorReport>,
    /// What was found in the source.
    pub diagnostics: Vec<Location>,
    /// Tool calls: the first of each kind, then how many more there were.
    pub calls: Vec<CallReport>,
    /// Files that are to go out, then new and changed ones.
    pub files: Vec<FileReport>,
    /// What did not go to the folder that files were to be copied to.
    #[serde(skip)]
    pub left_behind: LeftBehind,
    /// What it tried and was refused.
    pub violations: Vec<ViolationReport>,
    /// What was cut.
    pub truncated: Truncated,
    /// What it used.
    pub usage: Usage,
    /// What it cost and saved a model.
    pub tokens: Option<TokenReport>,
    /// What was cut, whole and clean, for whoever asks for it.
    #[serde(skip)]
    pub whole: Option<Box<Whole>>,
    /// Bytes of the arguments and results of all its calls.
    #[serde(skip)]
    pub call_bytes: u64,
    /// The most bytes that its reader is shown.
    #[serde(skip)]
    pub most: Option<usize>,
    /// What held each rule.
    pub enforcement: Vec<ringfence_journal::Enforcement>,
    /// The policy in force.
    pub policy: ringfence_journal::PolicyRef,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// A stable code.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The policy's key that decided.
    pub rule: Option<String>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallReport {
    /// The program's number of it, from 1; 0 where it stands for several.
    pub number: u32,
    /// The tool.
    pub tool: String,
    /// `ok`, `failed`, `broken`, `timed_out`, `unknown` or `refused`.
    pub outcome: &'static str,
    /// The rule that decided.
    pub rule: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// Bytes of its arguments.
    pub bytes_in: u64,
    /// Bytes of its result.
    pub bytes_out: u64,
    /// How many more of this kind there were, which are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// What a model pays and is spared, in tokens of `o200k_base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokenReport {
    /// What this result costs: value, output and error.
    pub returned: u64,
    /// What the results of the tools would have cost: about four bytes a token.
    pub avoided: u64,
}

/// A file that is new or changed, or that the program wants to go out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its path below the workspace.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub sha256: String,
    /// `created`, `changed`, or `same` for one that goes out as it came.
    pub change: &'static str,
    /// Whether the program wants it to go out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emitted: bool,
    /// What the program says it is, such as `text/csv`, where it wants it to go out.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Something tried and refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViolationReport {
    /// Its kind.
    pub kind: String,
    /// What was tried.
    pub detail: String,
    /// The rule.
    pub rule: String,
}
