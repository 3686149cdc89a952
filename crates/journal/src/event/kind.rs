//! The kinds of events: a closed set.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::parts::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, CallOutcome, Client, Enforcement, FileIn, FileOut, Found,
    Limits, LossCause, Output, PolicyRef, PrunedSession, ServerPlace, Status, Stream, Target, Truncated, Usage,
};
use crate::event::By;
use crate::{ApprovalId, ExecutionId, LeaseId, Principal, SessionId, Text};

/// The kind of an event and its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// A session begins under a policy.
    SessionOpened {
        /// The policy in force at the start.
        policy: PolicyRef,
        /// Who owns the session.
        principal: Principal,
        /// The backend that provides the sandbox.
        backend: Text,
        /// How each rule is enforced.
        enforcement: Vec<Enforcement>,
    },
    /// An execution is about to start.
    ExecutionStarted {
        /// The language, or `program` for any other.
        language: Text,
        /// The name of the file or program, if it has one.
        program: Option<Text>,
        /// blake3 of the code, or of the arguments joined with NUL.
        code: crate::Hash,
        /// Length of the code or arguments in bytes.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Files placed into the workspace before the start.
        files: Vec<FileIn>,
        /// The limits in force.
        limits: Limits,
        /// The client that requested it, if one identified itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<Client>,
        /// The execution that called it as a skill, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ExecutionId>,
    },
    /// A part of the program's output.
    Output {
        /// The stream of the program that printed it.
        stream: Stream,
        /// Counts from 1 in each stream.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The text of the part, cleaned.
        text: Text,
    },
    /// An execution has ended.
    ExecutionEnded {
        /// The final status of the execution.
        status: Status,
        /// The program's own exit code; `None` if the program did not exit by itself.
        exit_code: Option<i32>,
        /// The stable code of the error, if there was one.
        error: Option<Text>,
        /// Resources that the execution used.
        usage: Usage,
        /// Digest of the policy it ran under.
        policy: Text,
        /// Which parts of the result were truncated.
        truncated: Truncated,
        /// The beginning of its output, if the policy keeps it.
        output: Option<Output>,
    },
    /// The program attempted something that the policy forbids.
    Violation {
        /// The kind of attempt.
        what: Text,
        /// What exactly was attempted, such as a path or a system call.
        detail: Text,
        /// The rule that forbids it.
        rule: Text,
    },
    /// A limit was reached.
    LimitHit {
        /// The limit's stable code.
        code: Text,
        /// The rule that sets the limit.
        rule: Text,
        /// The mechanism that enforced the limit.
        by: By,
    },
    /// A request was refused before it started.
    Refused {
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
        /// Advice on how to avoid the refusal, if there is any.
        hint: Option<Text>,
    },
    /// A principal requested that the session stops.
    StopRequested {
        /// The principal who requested it.
        by: Principal,
    },
    /// Leftovers of a dead process were removed; everything that ran in the session is lost.
    Swept {
        /// The kind of resource that was removed, or `nothing`.
        what: Text,
        /// How many resources of that kind were removed.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
        /// The lease of the dead process.
        lease: LeaseId,
    },
    /// Files left the sandbox.
    FilesOut {
        /// The files that left, with size and digest.
        files: Vec<FileOut>,
    },
    /// A tool server is used for the first time in this session.
    ServerUsed {
        /// The operator's name for the server.
        server: Text,
        /// Whether the server runs on the host, in a sandbox or behind a URL.
        place: ServerPlace,
    },
    /// A tool is about to be called.
    CallStarted {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// The rule that allows it.
        rule: Text,
        /// blake3 of the arguments as JSON text.
        arguments: crate::Hash,
        /// Length of that text in bytes.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
    },
    /// A tool call has ended.
    CallEnded {
        /// The number from the matching `call_started` event.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// Whether the tool answered, and whether it succeeded.
        outcome: CallOutcome,
        /// The stable code of the error, if there was one.
        error: Option<Text>,
        /// Duration of the call in milliseconds.
        #[serde(serialize_with = "super::parts::safe")]
        duration_ms: u64,
        /// blake3 of the result as JSON text, if there is one.
        result: Option<crate::Hash>,
        /// Length of that text in bytes.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
    },
    /// A call was refused before anything was sent.
    CallRefused {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool name as the program gave it.
        tool: Text,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
    },
    /// A call waits for an approval.
    ApprovalAsked {
        /// The id of the approval request.
        id: ApprovalId,
        /// The call's number in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// The rule that requires an approval.
        rule: Text,
        /// The reason why an approval is needed.
        why: AskReason,
        /// blake3 of everything that the person sees and that the answer is bound to.
        shown: crate::Hash,
        /// When the request expires; no answer until then means no.
        #[serde(serialize_with = "super::parts::fixed_time")]
        expires: Timestamp,
    },
    /// An approval request is settled, and the call continues accordingly.
    ApprovalAnswered {
        /// The id of the approval request.
        id: ApprovalId,
        /// The call's number in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// Whether it was approved, denied, expired or withdrawn.
        answer: ApprovalAnswer,
        /// How long an approval holds.
        scope: Option<ApprovalScope>,
        /// Who answered; `None` if nobody did.
        by: Option<Principal>,
        /// The channel of the answer; `None` if nobody answered.
        via: Option<ApprovalVia>,
    },
    /// An execution that only waits has released its sandbox.
    ExecutionSuspended {
        /// How many calls it waits for.
        #[serde(serialize_with = "super::parts::safe")]
        waiting: u64,
        /// When it continues even without an answer.
        #[serde(serialize_with = "super::parts::fixed_time_option")]
        until: Option<Timestamp>,
    },
    /// An execution continues: it runs again from its beginning and replays the known answers.
    ExecutionResumed {
        /// How many calls have known answers.
        #[serde(serialize_with = "super::parts::safe")]
        known: u64,
        /// How many calls were in progress when the process died: their effect is unknown.
        #[serde(serialize_with = "super::parts::safe")]
        unknown: u64,
    },
    /// Personal data or secrets were redacted from a result, or the whole result was withheld because of them.
    DataHidden {
        /// The call whose result it was; `None` for the output of the execution itself.
        #[serde(serialize_with = "super::parts::safe_option")]
        number: Option<u64>,
        /// Counts per kind of data, never the data itself.
        found: Vec<Found>,
        /// Whether the whole result was withheld.
        blocked: bool,
    },
    /// Aliases in the arguments of a call were replaced by their values.
    DataRevealed {
        /// The number of the call in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// How many aliases were replaced.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
    },
    /// A person requested the value of an alias and received it.
    AliasRevealed {
        /// The alias, never its value.
        alias: Text,
        /// The session that the alias belongs to.
        of: SessionId,
    },
    /// A part of an execution's output was shortened or neutralised.
    DataCapped {
        /// `value`, `stdout`, `stderr`, or the path of a file.
        part: Text,
        /// Size of the part in bytes before the cut.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Bytes of the part that are not shown.
        #[serde(serialize_with = "super::parts::safe")]
        left_out: u64,
        /// Escape sequences, invalid bytes and imitated notices that were neutralised.
        #[serde(serialize_with = "super::parts::safe")]
        neutralised: u64,
    },
    /// A tool's definition has changed since it was pinned.
    ToolDrifted {
        /// The tool's full name.
        tool: Text,
        /// Digest of the definition found now.
        found: Text,
        /// When the pinned definition was recorded.
        #[serde(serialize_with = "super::parts::fixed_time")]
        since: Timestamp,
    },
    /// An outgoing request or an opaque connection is about to start.
    EgressStarted {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The destination as the program requested it.
        to: Target,
        /// The address that was checked and is dialled.
        address: Text,
        /// The rule that allows it.
        rule: Text,
    },
    /// An outgoing request or connection has ended.
    EgressEnded {
        /// The number from the matching `egress_started` event.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The HTTP status of the response, if it was visible.
        status: Option<u16>,
        /// The stable code of the error, if there was one.
        error: Option<Text>,
        /// Bytes sent to the destination.
        #[serde(serialize_with = "super::parts::safe")]
        bytes_out: u64,
        /// Bytes received from the destination.
        #[serde(serialize_with = "super::parts::safe")]
        bytes_in: u64,
        /// Duration of the egress in milliseconds.
        #[serde(serialize_with = "super::parts::safe")]
        duration_ms: u64,
    },
    /// An outgoing request or connection was refused before anything was sent.
    EgressRefused {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The requested destination, as far as it could be parsed.
        to: Target,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
    },
    /// A credential is about to be attached to an outgoing request.
    CredentialUsed {
        /// The number of the egress that carries it.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name, never its secret.
        credential: Text,
    },
    /// A credential's placeholder was sent to a destination or in a place where it is not allowed; it was not replaced.
    CredentialMisused {
        /// The number of the egress that carried it.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name, never its secret.
        credential: Text,
        /// Where it was found, such as `header` or `path`.
        place: Text,
        /// The stable code of the refusal.
        code: Text,
    },
    /// Another policy is in force from here on.
    PolicyChanged {
        /// Generation of the policy; 1 is the one that the session was opened with.
        #[serde(serialize_with = "super::parts::safe")]
        generation: u64,
        /// The policy in force from here on.
        policy: PolicyRef,
    },
    /// A process resumes a session and finds its kept files.
    WorkspaceOpened {
        /// Total size of the workspace files in bytes.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Number of files and folders in the workspace.
        #[serde(serialize_with = "super::parts::safe")]
        files: u64,
    },
    /// The kept files of a session are about to be removed.
    WorkspaceRemoved {
        /// The mount points of the files.
        mounts: Vec<Text>,
        /// The reason for the removal.
        why: Text,
        /// Total size in bytes at the last count.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Number of files and folders at the last count.
        #[serde(serialize_with = "super::parts::safe")]
        files: u64,
    },
    /// Further events like earlier ones: counted, not listed.
    Repeated {
        /// The kind of event that is not written each time, such as `call_refused`.
        of: Text,
        /// The tool or the host concerned, or `other` if there were too many to tell apart.
        what: Text,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
        /// How many more there were, beyond those written one by one.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
    },
    /// Missing records were detected, and writing continued without them.
    LossAccepted {
        /// The number of the head in the mark beside the key; `None` if the mark itself was missing.
        #[serde(serialize_with = "super::parts::safe_option")]
        marked: Option<u64>,
        /// The number of the last head found in the journal.
        #[serde(serialize_with = "super::parts::safe")]
        found: u64,
        /// Why writing continued in spite of the loss.
        cause: LossCause,
        /// Who accepted the loss, or the owner of the process that detected it.
        by: Principal,
    },
    /// Records past their retention time are removed; their signed heads stay.
    JournalPruned {
        /// Sessions that were last used before this are removed.
        #[serde(serialize_with = "super::parts::fixed_time")]
        before: Timestamp,
        /// The sessions that are removed, with their record counts.
        sessions: Vec<PrunedSession>,
        /// Number of removed records in all sessions together.
        #[serde(serialize_with = "super::parts::safe")]
        records: u64,
        /// Size of their events in bytes, in all sessions together.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Who requested the pruning, or the owner of the process that did it.
        by: Principal,
    },
    /// A session is closed; no record may follow.
    SessionClosed {
        /// The reason for the end, as text for people.
        reason: Text,
    },
}

impl Kind {
    /// Whether the chain's head is signed when this event is written.
    pub fn is_signed(&self) -> bool {
        matches!(self, Kind::ExecutionEnded { .. } | Kind::SessionClosed { .. })
    }

    /// Whether the event is written although its session's budget is used up: it ends something that began, or gives the reason.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Kind::ExecutionEnded { .. }
                | Kind::ExecutionSuspended { .. }
                | Kind::LimitHit { .. }
                | Kind::Repeated { .. }
                | Kind::StopRequested { .. }
                | Kind::Swept { .. }
                | Kind::CallEnded { .. }
                | Kind::EgressEnded { .. }
                | Kind::ApprovalAnswered { .. }
                | Kind::WorkspaceRemoved { .. }
                | Kind::SessionClosed { .. }
        )
    }

    /// Whether the event is the only record of a session that was never opened: it concerns the journal itself, or no session.
    pub fn stands_alone(&self) -> bool {
        matches!(
            self,
            Kind::Refused { .. } | Kind::Swept { .. } | Kind::LossAccepted { .. } | Kind::JournalPruned { .. }
        )
    }

    /// Whether the event reports a refusal, a reached limit or a changed definition.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Kind::Violation { .. }
                | Kind::LimitHit { .. }
                | Kind::Refused { .. }
                | Kind::CallRefused { .. }
                | Kind::ApprovalAsked { .. }
                | Kind::ToolDrifted { .. }
                | Kind::EgressRefused { .. }
                | Kind::CredentialMisused { .. }
                | Kind::Repeated { .. }
                | Kind::LossAccepted { .. }
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
            Kind::ApprovalAsked { .. } => "approval_asked",
            Kind::ApprovalAnswered { .. } => "approval_answered",
            Kind::ExecutionSuspended { .. } => "execution_suspended",
            Kind::ExecutionResumed { .. } => "execution_resumed",
            Kind::DataHidden { .. } => "data_hidden",
            Kind::DataRevealed { .. } => "data_revealed",
            Kind::AliasRevealed { .. } => "alias_revealed",
            Kind::DataCapped { .. } => "data_capped",
            Kind::ToolDrifted { .. } => "tool_drifted",
            Kind::EgressStarted { .. } => "egress_started",
            Kind::EgressEnded { .. } => "egress_ended",
            Kind::EgressRefused { .. } => "egress_refused",
            Kind::CredentialUsed { .. } => "credential_used",
            Kind::CredentialMisused { .. } => "credential_misused",
            Kind::PolicyChanged { .. } => "policy_changed",
            Kind::WorkspaceOpened { .. } => "workspace_opened",
            Kind::WorkspaceRemoved { .. } => "workspace_removed",
            Kind::Repeated { .. } => "repeated",
            Kind::LossAccepted { .. } => "loss_accepted",
            Kind::JournalPruned { .. } => "journal_pruned",
            Kind::SessionClosed { .. } => "session_closed",
        }
    }
}
