//! The parts that events are made of.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{SessionId, Text};

/// The largest whole number that JSON carries without loss everywhere.
const SAFE: u64 = (1 << 53) - 1;

/// Writes a number, held at what JSON carries without loss: canonical text must read back equal.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(super) fn safe<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64((*number).min(SAFE))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(super) fn safe_option<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(|number| number.min(SAFE)).serialize(serializer)
}

/// Writes a time with six digits of fraction, so that texts of times sort as the times do.
pub(super) fn fixed_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.6}"))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(super) fn fixed_time_option<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => fixed_time(at, serializer),
        None => serializer.serialize_none(),
    }
}

/// Why writing went on although records were missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// An operator said so.
    Operator,
    /// The machine started anew, and what was missing had not reached the disk.
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

/// A session whose records were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrunedSession {
    /// Which.
    pub session: SessionId,
    /// How many records it had.
    #[serde(serialize_with = "safe")]
    pub records: u64,
}

/// Why a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskReason {
    /// A rule says so.
    Rule,
    /// The tool is not what it was when it was first used.
    Drift,
    /// It was under way when its process died: nobody knows what it did.
    Unknown,
}

/// How a question to a person was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// Yes.
    Approved,
    /// No.
    Denied,
    /// Nobody answered in time, which means no.
    Expired,
    /// What was asked is not what would happen any more, or whoever asked is gone.
    Withdrawn,
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// For this call.
    Once,
    /// For this tool until the session ends.
    Session,
    /// For calls like it, from here on: by a rule of its own.
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

/// By which way an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVia {
    /// The command line.
    Cli,
    /// The API.
    Api,
    /// The form of the MCP client that made the call.
    Client,
}

/// A policy by name and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRef {
    /// What its file calls it.
    pub name: Text,
    /// Digest of the policy in force.
    pub digest: Text,
}

/// What holds a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A control group of the kernel.
    Cgroup,
    /// A resource limit of the process.
    Rlimit,
    /// A kernel namespace.
    Namespace,
    /// A system call filter.
    Seccomp,
    /// Landlock, the second fence around files.
    Landlock,
    /// A size given to a file system.
    Quota,
    /// The host looks now and then, and kills.
    Watch,
    /// The only door out.
    Gateway,
}

/// One rule and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// The rule's address in the policy.
    pub rule: Text,
    /// What holds it.
    pub by: By,
}

/// A file put into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIn {
    /// Its name there.
    pub path: Text,
    /// Its size.
    #[serde(serialize_with = "safe")]
    pub bytes: u64,
}

/// A file that left the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOut {
    /// Its name in the workspace.
    pub path: Text,
    /// Its size.
    #[serde(serialize_with = "safe")]
    pub bytes: u64,
    /// Its digest, in hexadecimal.
    pub sha256: Text,
}

/// How much of one kind of personal data was found, or of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The kind, such as `email`.
    pub what: Text,
    /// How many.
    #[serde(serialize_with = "safe")]
    pub count: u64,
}

/// What a client says of its own request: claims, by which its records and ours can be joined.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// Its number of this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Text>,
    /// Where the call stands in its trace: a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Text>,
}

/// The limits of an execution; absent means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall time in milliseconds.
    #[serde(serialize_with = "safe_option")]
    pub wall_ms: Option<u64>,
    /// Processor time in milliseconds.
    #[serde(serialize_with = "safe_option")]
    pub cpu_ms: Option<u64>,
    /// Memory.
    #[serde(serialize_with = "safe_option")]
    pub memory_bytes: Option<u64>,
    /// Processes at once.
    #[serde(serialize_with = "safe_option")]
    pub processes: Option<u64>,
    /// Open files of one process.
    #[serde(serialize_with = "safe_option")]
    pub open_files: Option<u64>,
    /// Writable space.
    #[serde(serialize_with = "safe_option")]
    pub disk_bytes: Option<u64>,
    /// What is kept of the output.
    #[serde(serialize_with = "safe_option")]
    pub output_bytes: Option<u64>,
}

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Under way.
    Running,
    /// The program ended by itself, successfully.
    Completed,
    /// The program ended by itself, with an error.
    Failed,
    /// Out of wall or processor time.
    TimedOut,
    /// Killed at a limit.
    Killed,
    /// Stopped on request.
    Cancelled,
    /// Never started.
    Refused,
    /// Waits for a person.
    WaitingApproval,
    /// Its process died; what became of it is not known.
    Lost,
}

impl Status {
    /// The name under which it is written, such as `timed_out`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Killed => "killed",
            Status::Cancelled => "cancelled",
            Status::Refused => "refused",
            Status::WaitingApproval => "waiting_approval",
            Status::Lost => "lost",
        }
    }

    /// Whether an execution can still go on from here.
    pub fn is_under_way(self) -> bool {
        matches!(self, Status::Running | Status::WaitingApproval)
    }
}

/// What an execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Wall time in milliseconds.
    #[serde(serialize_with = "safe")]
    pub wall_ms: u64,
    /// Processor time in milliseconds.
    #[serde(serialize_with = "safe")]
    pub cpu_ms: u64,
    /// The most memory it had at once, files in memory not counted.
    #[serde(serialize_with = "safe")]
    pub peak_memory_bytes: u64,
    /// The most that its files in memory came to; left out where there were none.
    #[serde(default, serialize_with = "safe", skip_serializing_if = "is_none")]
    pub peak_tmpfs_bytes: u64,
    /// Calls at the gateway.
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

/// A place outside, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `https` or `http`.
    pub scheme: Text,
    /// The host, or what stood where a host should be.
    pub host: Text,
    /// The port.
    pub port: u16,
    /// The method, where it was seen.
    pub method: Option<Text>,
    /// The path without its query, where it was seen.
    pub path: Option<Text>,
}

/// What was cut from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncated {
    /// Standard output was cut.
    pub stdout: bool,
    /// Standard error was cut.
    pub stderr: bool,
    /// The value was cut.
    pub value: bool,
}

/// The beginning of what a program printed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Of its standard output.
    pub stdout: Text,
    /// Of its standard error.
    pub stderr: Text,
}

/// One of the two streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The tool answered.
    Ok,
    /// The tool answered that it failed.
    Failed,
    /// The tool or its server did not answer as it should.
    Broken,
    /// It took longer than the policy allows.
    TimedOut,
    /// Its program ended first; whether it took effect is not known.
    Unknown,
    /// It was refused before anything was sent.
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
    /// Behind a URL.
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
