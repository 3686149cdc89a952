//! The field types of events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{CleanText, SessionId};

/// The largest whole number that every JSON reader represents exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Writes a number, clamped to what every JSON reader represents exactly: canonical text must read back equal.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(super) fn safe<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64((*number).min(MAX_SAFE_INTEGER))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(super) fn safe_option<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(|number| number.min(MAX_SAFE_INTEGER)).serialize(serializer)
}

/// A time with six digits of fraction, so that texts of times sort as the times do.
pub fn time_text(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Writes a time as [`time_text`] has it.
pub fn fixed_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time_text(*at))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(super) fn fixed_time_option<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => fixed_time(at, serializer),
        None => serializer.serialize_none(),
    }
}

/// Why writing continued although records were missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// An operator accepted the loss.
    Operator,
    /// The machine restarted before the missing records had reached the disk.
    PowerCut,
}

impl LossCause {
    /// The name under which it is written, such as `power_cut`.
    pub fn name(self) -> &'static str {
        match self {
            LossCause::Operator => "operator",
            LossCause::PowerCut => "power_cut",
        }
    }
}

/// A session whose records were pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrunedSession {
    /// The session that was removed from the journal.
    pub session: SessionId,
    /// How many records it had.
    #[serde(serialize_with = "safe")]
    pub records: u64,
}

/// Why an approval is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskReason {
    /// A rule of the policy requires it.
    Rule,
    /// The tool's definition has changed since it was first used.
    Drift,
    /// The call was in progress when its process died: its effect is unknown.
    Unknown,
}

/// The outcome of an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// Somebody approved the call.
    Approved,
    /// Somebody denied the call.
    Denied,
    /// Nobody answered in time, which means no.
    Expired,
    /// The request is obsolete: the call would differ from it, or its execution is gone.
    Withdrawn,
}

/// How long an approval holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// For this call only.
    Once,
    /// For this tool until the session ends.
    Session,
    /// For similar calls from now on, through a rule of its own.
    Always,
}

impl ApprovalAnswer {
    /// The name under which it is written, such as `approved`.
    pub fn name(self) -> &'static str {
        match self {
            ApprovalAnswer::Approved => "approved",
            ApprovalAnswer::Denied => "denied",
            ApprovalAnswer::Expired => "expired",
            ApprovalAnswer::Withdrawn => "withdrawn",
        }
    }
}

impl ApprovalScope {
    /// The name under which it is written, such as `once`.
    pub fn name(self) -> &'static str {
        match self {
            ApprovalScope::Once => "once",
            ApprovalScope::Session => "session",
            ApprovalScope::Always => "always",
        }
    }
}

/// The channel through which an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVia {
    /// The command line, `ringfence`.
    Cli,
    /// The HTTP API of the server.
    Api,
    /// The form of the MCP client that made the call.
    Client,
}

/// A policy by name and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRef {
    /// The name in the policy file.
    pub name: CleanText,
    /// Digest of the policy in force.
    pub digest: CleanText,
}

/// The mechanism that enforces a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcedBy {
    /// A control group of the kernel.
    Cgroup,
    /// A resource limit of the process.
    Rlimit,
    /// A namespace of the kernel.
    Namespace,
    /// A system call filter.
    Seccomp,
    /// Landlock, the second layer of file access control.
    Landlock,
    /// The size limit of a file system.
    Quota,
    /// A periodic check by the host, which kills the program.
    Watch,
    /// The gateway, the only way out of the sandbox.
    Gateway,
}

/// A rule and the mechanism that enforces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// The rule's address in the policy.
    pub rule: CleanText,
    /// The mechanism that enforces the rule.
    pub by: EnforcedBy,
}

/// A file placed into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIn {
    /// Its path in the workspace.
    pub path: CleanText,
    /// File size in bytes.
    #[serde(serialize_with = "safe")]
    pub bytes: u64,
}

/// A file that left the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOut {
    /// Its path in the workspace.
    pub path: CleanText,
    /// File size in bytes.
    #[serde(serialize_with = "safe")]
    pub bytes: u64,
    /// Its digest, in hexadecimal.
    pub sha256: CleanText,
}

/// How often one kind of personal data or secret was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectionCount {
    /// The kind, such as `email`.
    pub what: CleanText,
    /// How many values of that kind were found.
    #[serde(serialize_with = "safe")]
    pub count: u64,
}

/// What a client reports about its own request: claims that link its records with the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientClaims {
    /// The name that the client gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<CleanText>,
    /// The client's own id for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CleanText>,
    /// The position of the call in the client's trace, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<CleanText>,
}

/// The limits of an execution; an absent limit is not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedLimits {
    /// Wall time in milliseconds.
    #[serde(serialize_with = "safe_option")]
    pub wall_ms: Option<u64>,
    /// Processor time in milliseconds.
    #[serde(serialize_with = "safe_option")]
    pub cpu_ms: Option<u64>,
    /// Memory limit in bytes.
    #[serde(serialize_with = "safe_option")]
    pub memory_bytes: Option<u64>,
    /// The most processes at once.
    #[serde(serialize_with = "safe_option")]
    pub processes: Option<u64>,
    /// Open files per process.
    #[serde(serialize_with = "safe_option")]
    pub open_files: Option<u64>,
    /// Writable disk space in bytes.
    #[serde(serialize_with = "safe_option")]
    pub disk_bytes: Option<u64>,
    /// Output that is kept, in bytes.
    #[serde(serialize_with = "safe_option")]
    pub output_bytes: Option<u64>,
}

/// The status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The execution is in progress.
    Running,
    /// The program exited by itself, successfully.
    Completed,
    /// The program exited by itself, with an error.
    Failed,
    /// Wall time or processor time ran out.
    TimedOut,
    /// The program was killed when it reached a limit.
    Killed,
    /// The execution was stopped on request.
    Cancelled,
    /// The execution was refused before it started.
    Refused,
    /// The execution waits for an approval.
    WaitingApproval,
    /// The process that ran it died; the result is not known.
    Lost,
}

impl ExecutionStatus {
    /// The name under which it is written, such as `timed_out`.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionStatus::Running => "running",
            ExecutionStatus::Completed => "completed",
            ExecutionStatus::Failed => "failed",
            ExecutionStatus::TimedOut => "timed_out",
            ExecutionStatus::Killed => "killed",
            ExecutionStatus::Cancelled => "cancelled",
            ExecutionStatus::Refused => "refused",
            ExecutionStatus::WaitingApproval => "waiting_approval",
            ExecutionStatus::Lost => "lost",
        }
    }

    /// Whether the execution has not ended yet.
    pub fn is_under_way(self) -> bool {
        matches!(self, ExecutionStatus::Running | ExecutionStatus::WaitingApproval)
    }
}

/// Resources that an execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceUsage {
    /// Wall time in milliseconds.
    #[serde(serialize_with = "safe")]
    pub wall_ms: u64,
    /// Processor time in milliseconds.
    #[serde(serialize_with = "safe")]
    pub cpu_ms: u64,
    /// Peak memory, without files in memory.
    #[serde(serialize_with = "safe")]
    pub peak_memory_bytes: u64,
    /// Peak size of files in memory; omitted when 0.
    #[serde(default, serialize_with = "safe", skip_serializing_if = "is_none")]
    pub peak_tmpfs_bytes: u64,
    /// Tool calls through the gateway.
    #[serde(serialize_with = "safe")]
    pub calls: u64,
    /// Bytes that left through the gateway.
    #[serde(serialize_with = "safe")]
    pub egress_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// A network destination as the program requested it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressTarget {
    /// The URL scheme, `https` or `http`.
    pub scheme: CleanText,
    /// The host, or the text in place of the host if it does not parse.
    pub host: CleanText,
    /// The TCP port number.
    pub port: u16,
    /// The HTTP method; `None` if it was not visible.
    pub method: Option<CleanText>,
    /// The path without its query; `None` if it was not visible.
    pub path: Option<CleanText>,
}

/// The truncated parts of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruncationFlags {
    /// Standard output was cut.
    pub stdout: bool,
    /// Standard error was cut.
    pub stderr: bool,
    /// The value was cut.
    pub value: bool,
}

/// The beginning of a program's output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputHead {
    /// The beginning of its standard output.
    pub stdout: CleanText,
    /// The beginning of its standard error.
    pub stderr: CleanText,
}

/// An output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The program's standard output.
    Stdout,
    /// The program's standard error.
    Stderr,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The tool returned a result.
    Ok,
    /// The tool reported that it failed.
    Failed,
    /// The tool or its server gave no valid answer.
    Broken,
    /// The call took longer than the policy allows.
    TimedOut,
    /// The calling program ended first; whether the call took effect is not known.
    Unknown,
    /// The call was refused before anything was sent.
    Refused,
}

impl CallOutcome {
    /// The name under which it is written, such as `timed_out`.
    pub fn name(self) -> &'static str {
        match self {
            CallOutcome::Ok => "ok",
            CallOutcome::Failed => "failed",
            CallOutcome::Broken => "broken",
            CallOutcome::TimedOut => "timed_out",
            CallOutcome::Unknown => "unknown",
            CallOutcome::Refused => "refused",
        }
    }
}

/// Where a tool server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerPlace {
    /// On this machine, outside any sandbox.
    Host,
    /// In a sandbox of its own.
    Sandbox,
    /// On another machine, reached by a URL.
    Remote,
}

impl ServerPlace {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            ServerPlace::Host => "host",
            ServerPlace::Sandbox => "sandbox",
            ServerPlace::Remote => "remote",
        }
    }
}
