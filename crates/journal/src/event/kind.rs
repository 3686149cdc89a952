//! What can happen: a closed set.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::parts::{
    CallOutcome, Client, Enforcement, FileIn, FileOut, Limits, Output, PolicyRef, ServerPlace, Status, Stream, Target,
    Truncated, Usage,
};
use crate::event::By;
use crate::{LeaseId, Principal, Text};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// A session begins under a policy.
    SessionOpened {
        /// The policy in force.
        policy: PolicyRef,
        /// Who owns the session.
        principal: Principal,
        /// What the sandbox is made of.
        backend: Text,
        /// What holds each rule.
        enforcement: Vec<Enforcement>,
    },
    /// An execution is about to start.
    ExecutionStarted {
        /// The language, or `program` for any other.
        language: Text,
        /// The file name or the program's name.
        program: Option<Text>,
        /// blake3 of the code, or of the arguments joined with NUL.
        code: crate::Hash,
        /// How long the code is.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// What is put into the workspace.
        files: Vec<FileIn>,
        /// The limits in force.
        limits: Limits,
        /// Who asked for it, if a client did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<Client>,
    },
    /// A part of what the program printed.
    Output {
        /// Where it was printed.
        stream: Stream,
        /// Counts from 1 in each stream.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The part, cleaned.
        text: Text,
    },
    /// An execution is over.
    ExecutionEnded {
        /// How it ended.
        status: Status,
        /// The program's own exit code, if it came to one.
        exit_code: Option<i32>,
        /// The stable code of what went wrong.
        error: Option<Text>,
        /// What it used.
        usage: Usage,
        /// Digest of the policy it ran under.
        policy: Text,
        /// What was cut from the answer.
        truncated: Truncated,
        /// The beginning of what it printed, if the policy wants it kept.
        output: Option<Output>,
    },
    /// Something was tried that the policy forbids.
    Violation {
        /// What kind of thing was tried.
        what: Text,
        /// What exactly.
        detail: Text,
        /// The rule that forbids it.
        rule: Text,
    },
    /// A limit was reached.
    LimitHit {
        /// The limit's stable code.
        code: Text,
        /// The rule that sets it.
        rule: Text,
        /// What held it.
        by: By,
    },
    /// Something was refused before it started.
    Refused {
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
        /// What would help.
        hint: Option<Text>,
    },
    /// Somebody asked for the session to be stopped.
    StopRequested {
        /// Who asked.
        by: Principal,
    },
    /// What a dead process left behind was removed; whatever ran in the session is lost.
    Swept {
        /// What was removed, or `nothing`.
        what: Text,
        /// How many.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
        /// The lease of the dead process.
        lease: LeaseId,
    },
    /// Files left the sandbox.
    FilesOut {
        /// Which.
        files: Vec<FileOut>,
    },
    /// A tool server is used for the first time in this session.
    ServerUsed {
        /// What the operator calls it.
        server: Text,
        /// Where it runs.
        place: ServerPlace,
    },
    /// A tool is about to be called.
    CallStarted {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// The rule that lets it.
        rule: Text,
        /// blake3 of the arguments as JSON text.
        arguments: crate::Hash,
        /// How long that text is.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
    },
    /// A tool was called.
    CallEnded {
        /// The number of its start.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// How it went.
        outcome: CallOutcome,
        /// The stable code of what went wrong.
        error: Option<Text>,
        /// How long it took.
        #[serde(serialize_with = "super::parts::safe")]
        duration_ms: u64,
        /// blake3 of the result as JSON text, if there is one.
        result: Option<crate::Hash>,
        /// How long that text is.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
    },
    /// A call was refused before anything was sent.
    CallRefused {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// What the program called it.
        tool: Text,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
    },
    /// A tool is not what it was when it was first used.
    ToolDrifted {
        /// The tool's full name.
        tool: Text,
        /// Its digest now.
        found: Text,
        /// When the other definition was pinned.
        since: Timestamp,
    },
    /// Something is about to leave for a host: a request, or a connection whose inside is not looked at.
    EgressStarted {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// Where to.
        to: Target,
        /// The address that was judged and is dialled.
        address: Text,
        /// The rule that lets it.
        rule: Text,
    },
    /// What left for a host is over.
    EgressEnded {
        /// The number of its start.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The answer's HTTP status, where it was seen.
        status: Option<u16>,
        /// The stable code of what went wrong.
        error: Option<Text>,
        /// Bytes that left.
        #[serde(serialize_with = "super::parts::safe")]
        bytes_out: u64,
        /// Bytes that came.
        #[serde(serialize_with = "super::parts::safe")]
        bytes_in: u64,
        /// How long it took.
        #[serde(serialize_with = "super::parts::safe")]
        duration_ms: u64,
    },
    /// A way out was refused before anything was sent.
    EgressRefused {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// Where to, as far as that was a place at all.
        to: Target,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
    },
    /// A credential is about to be attached to what leaves.
    CredentialUsed {
        /// The number of the egress.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name.
        credential: Text,
    },
    /// The stand-in of a credential was sent where it does not belong; it was not replaced.
    CredentialMisused {
        /// The number of the egress.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name.
        credential: Text,
        /// Where it was found, such as `header` or `path`.
        place: Text,
        /// The stable code of the refusal.
        code: Text,
    },
    /// Other rules are in force from here on.
    PolicyChanged {
        /// Counts from 1, which is what the session was opened with.
        #[serde(serialize_with = "super::parts::safe")]
        generation: u64,
        /// The policy in force.
        policy: PolicyRef,
    },
    /// A session is over; nothing follows.
    SessionClosed {
        /// Why.
        reason: Text,
    },
}

impl Kind {
    /// Whether the chain's head is signed when this is written.
    pub fn is_signed(&self) -> bool {
        matches!(self, Kind::ExecutionEnded { .. } | Kind::SessionClosed { .. })
    }

    /// Whether it says that something was refused, reached its limit or is not as it was.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Kind::Violation { .. }
                | Kind::LimitHit { .. }
                | Kind::Refused { .. }
                | Kind::CallRefused { .. }
                | Kind::ToolDrifted { .. }
                | Kind::EgressRefused { .. }
                | Kind::CredentialMisused { .. }
        )
    }

    /// The name under which it is written, such as `session_opened`.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::SessionOpened { .. } => "session_opened",
            Kind::ExecutionStarted { .. } => "execution_started",
            Kind::Output { .. } => "output",
            Kind::ExecutionEnded { .. } => "execution_ended",
            Kind::Violation { .. } => "violation",
            Kind::LimitHit { .. } => "limit_hit",
            Kind::Refused { .. } => "refused",
            Kind::StopRequested { .. } => "stop_requested",
            Kind::Swept { .. } => "swept",
            Kind::FilesOut { .. } => "files_out",
            Kind::ServerUsed { .. } => "server_used",
            Kind::CallStarted { .. } => "call_started",
            Kind::CallEnded { .. } => "call_ended",
            Kind::CallRefused { .. } => "call_refused",
            Kind::ToolDrifted { .. } => "tool_drifted",
            Kind::EgressStarted { .. } => "egress_started",
            Kind::EgressEnded { .. } => "egress_ended",
            Kind::EgressRefused { .. } => "egress_refused",
            Kind::CredentialUsed { .. } => "credential_used",
            Kind::CredentialMisused { .. } => "credential_misused",
            Kind::PolicyChanged { .. } => "policy_changed",
            Kind::SessionClosed { .. } => "session_closed",
        }
    }
}
