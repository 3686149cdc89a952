//! The kinds of events: a closed set.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::parts::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, CallOutcome, ClientClaims, DetectionCount, EgressTarget,
    Enforcement, ExecutionStatus, FileIn, FileOut, LossCause, OutputHead, OutputStream, PolicyRef, PrunedSession,
    RecordedLimits, ResourceUsage, ServerPlace, TruncationFlags,
};
use crate::event::EnforcedBy;
use crate::{ApprovalId, CleanText, ExecutionId, LeaseId, Principal, SessionId};

/// The kind of an event and its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EventKind {
    /// A session begins under a policy.
    SessionOpened {
        /// The policy in force at the start.
        policy: PolicyRef,
        /// Who owns the session.
        principal: Principal,
        /// The backend that provides the sandbox.
        backend: CleanText,
        /// How each rule is enforced.
        enforcement: Vec<Enforcement>,
    },
    /// An execution is about to start.
    ExecutionStarted {
        /// The language, or `program` for any other.
        language: CleanText,
        /// The name of the file or program, if it has one.
        program: Option<CleanText>,
        /// blake3 of the code, or of the arguments joined with NUL.
        code: crate::ContentHash,
        /// Length of the code or arguments in bytes.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Files placed into the workspace before the start.
        files: Vec<FileIn>,
        /// The limits in force.
        limits: RecordedLimits,
        /// The client that requested it, if one identified itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientClaims>,
        /// The execution that called it as a skill, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ExecutionId>,
    },
    /// A part of the program's output.
    Output {
        /// The stream of the program that printed it.
        stream: OutputStream,
        /// Counts from 1 in each stream.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The text of the part, cleaned.
        text: CleanText,
    },
    /// An execution has ended.
    ExecutionEnded {
        /// The final status of the execution.
        status: ExecutionStatus,
        /// The program's own exit code; `None` if the program did not exit by itself.
        exit_code: Option<i32>,
        /// The stable code of the error, if there was one.
        error: Option<CleanText>,
        /// Resources that the execution used.
        usage: ResourceUsage,
        /// Digest of the policy it ran under.
        policy: CleanText,
        /// Which parts of the result were truncated.
        truncated: TruncationFlags,
        /// The beginning of its output, if the policy keeps it.
        output: Option<OutputHead>,
    },
    /// The program attempted something that the policy forbids.
    Violation {
        /// The kind of attempt.
        what: CleanText,
        /// What exactly was attempted, such as a path or a system call.
        detail: CleanText,
        /// The rule that forbids it.
        rule: CleanText,
    },
    /// A limit was reached.
    LimitHit {
        /// The limit's stable code.
        code: CleanText,
        /// The rule that sets the limit.
        rule: CleanText,
        /// The mechanism that enforced the limit.
        by: EnforcedBy,
    },
    /// A request was refused before it started.
    Refused {
        /// The stable code of the refusal.
        code: CleanText,
        /// The rule that refused.
        rule: CleanText,
        /// Advice on how to avoid the refusal, if there is any.
        hint: Option<CleanText>,
    },
    /// A principal requested that the session stops.
    StopRequested {
        /// The principal who requested it.
        by: Principal,
    },
    /// Leftovers of a dead process were removed; everything that ran in the session is lost.
    Swept {
        /// The kind of resource that was removed, or `nothing`.
        what: CleanText,
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
        server: CleanText,
        /// Whether the server runs on the host, in a sandbox or behind a URL.
        place: ServerPlace,
    },
    /// A tool is about to be called.
    CallStarted {
        /// Counts from 1 in each execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: CleanText,
        /// The rule that allows it.
        rule: CleanText,
        /// blake3 of the arguments as JSON text.
        arguments: crate::ContentHash,
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
        tool: CleanText,
        /// Whether the tool answered, and whether it succeeded.
        outcome: CallOutcome,
        /// The stable code of the error, if there was one.
        error: Option<CleanText>,
        /// Duration of the call in milliseconds.
        #[serde(serialize_with = "super::parts::safe")]
        duration_ms: u64,
        /// blake3 of the result as JSON text, if there is one.
        result: Option<crate::ContentHash>,
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
        tool: CleanText,
        /// The stable code of the refusal.
        code: CleanText,
        /// The rule that refused.
        rule: CleanText,
    },
    /// A call waits for an approval.
    ApprovalAsked {
        /// The id of the approval request.
        id: ApprovalId,
        /// The call's number in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: CleanText,
        /// The rule that requires an approval.
        rule: CleanText,
        /// The reason why an approval is needed.
        why: AskReason,
        /// blake3 of everything that the person sees and that the answer is bound to.
        shown: crate::ContentHash,
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
        found: Vec<DetectionCount>,
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
        alias: CleanText,
        /// The session that the alias belongs to.
        of: SessionId,
    },
    /// A part of an execution's output was shortened or neutralised.
    DataCapped {
        /// `value`, `stdout`, `stderr`, or the path of a file.
        part: CleanText,
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
        tool: CleanText,
        /// Digest of the definition found now.
        found: CleanText,
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
        to: EgressTarget,
        /// The address that was checked and is dialled.
        address: CleanText,
        /// The rule that allows it.
        rule: CleanText,
    },
    /// An outgoing request or connection has ended.
    EgressEnded {
        /// The number from the matching `egress_started` event.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The HTTP status of the response, if it was visible.
        status: Option<u16>,
        /// The stable code of the error, if there was one.
        error: Option<CleanText>,
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
        to: EgressTarget,
        /// The stable code of the refusal.
        code: CleanText,
        /// The rule that refused.
        rule: CleanText,
    },
    /// A credential is about to be attached to an outgoing request.
    CredentialUsed {
        /// The number of the egress that carries it.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name, never its secret.
        credential: CleanText,
    },
    /// A credential's placeholder was sent to a destination or in a place where it is not allowed; it was not replaced.
    CredentialMisused {
        /// The number of the egress that carried it.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The credential's name, never its secret.
        credential: CleanText,
        /// Where it was found, such as `header` or `path`.
        place: CleanText,
        /// The stable code of the refusal.
        code: CleanText,
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
        mounts: Vec<CleanText>,
        /// The reason for the removal.
        why: CleanText,
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
        of: CleanText,
        /// The tool or the host concerned, or `other` if there were too many to tell apart.
        what: CleanText,
        /// The stable code of the refusal.
        code: CleanText,
        /// The rule that refused.
        rule: CleanText,
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
        reason: CleanText,
    },
}

impl EventKind {
    /// Whether the chain's head is signed when this event is written.
    pub fn is_signed(&self) -> bool {
        matches!(self, EventKind::ExecutionEnded { .. } | EventKind::SessionClosed { .. })
    }

    /// Whether the event is written although its session's budget is used up: it ends something that began, or gives the reason.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            EventKind::ExecutionEnded { .. }
                | EventKind::ExecutionSuspended { .. }
                | EventKind::LimitHit { .. }
                | EventKind::Repeated { .. }
                | EventKind::StopRequested { .. }
                | EventKind::Swept { .. }
                | EventKind::CallEnded { .. }
                | EventKind::EgressEnded { .. }
                | EventKind::ApprovalAnswered { .. }
                | EventKind::WorkspaceRemoved { .. }
                | EventKind::SessionClosed { .. }
        )
    }

    /// Whether the event is the only record of a session that was never opened: it concerns the journal itself, or no session.
    pub fn stands_alone(&self) -> bool {
        matches!(
            self,
            EventKind::Refused { .. }
                | EventKind::Swept { .. }
                | EventKind::LossAccepted { .. }
                | EventKind::JournalPruned { .. }
        )
    }

    /// Whether the event reports a refusal, a reached limit or a changed definition.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            EventKind::Violation { .. }
                | EventKind::LimitHit { .. }
                | EventKind::Refused { .. }
                | EventKind::CallRefused { .. }
                | EventKind::ApprovalAsked { .. }
                | EventKind::ToolDrifted { .. }
                | EventKind::EgressRefused { .. }
                | EventKind::CredentialMisused { .. }
                | EventKind::Repeated { .. }
                | EventKind::LossAccepted { .. }
        )
    }

    /// The name under which it is written, such as `session_opened`.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::SessionOpened { .. } => "session_opened",
            EventKind::ExecutionStarted { .. } => "execution_started",
            EventKind::Output { .. } => "output",
            EventKind::ExecutionEnded { .. } => "execution_ended",
            EventKind::Violation { .. } => "violation",
            EventKind::LimitHit { .. } => "limit_hit",
            EventKind::Refused { .. } => "refused",
            EventKind::StopRequested { .. } => "stop_requested",
            EventKind::Swept { .. } => "swept",
            EventKind::FilesOut { .. } => "files_out",
            EventKind::ServerUsed { .. } => "server_used",
            EventKind::CallStarted { .. } => "call_started",
            EventKind::CallEnded { .. } => "call_ended",
            EventKind::CallRefused { .. } => "call_refused",
            EventKind::ApprovalAsked { .. } => "approval_asked",
            EventKind::ApprovalAnswered { .. } => "approval_answered",
            EventKind::ExecutionSuspended { .. } => "execution_suspended",
            EventKind::ExecutionResumed { .. } => "execution_resumed",
            EventKind::DataHidden { .. } => "data_hidden",
            EventKind::DataRevealed { .. } => "data_revealed",
            EventKind::AliasRevealed { .. } => "alias_revealed",
            EventKind::DataCapped { .. } => "data_capped",
            EventKind::ToolDrifted { .. } => "tool_drifted",
            EventKind::EgressStarted { .. } => "egress_started",
            EventKind::EgressEnded { .. } => "egress_ended",
            EventKind::EgressRefused { .. } => "egress_refused",
            EventKind::CredentialUsed { .. } => "credential_used",
            EventKind::CredentialMisused { .. } => "credential_misused",
            EventKind::PolicyChanged { .. } => "policy_changed",
            EventKind::WorkspaceOpened { .. } => "workspace_opened",
            EventKind::WorkspaceRemoved { .. } => "workspace_removed",
            EventKind::Repeated { .. } => "repeated",
            EventKind::LossAccepted { .. } => "loss_accepted",
            EventKind::JournalPruned { .. } => "journal_pruned",
            EventKind::SessionClosed { .. } => "session_closed",
        }
    }
}
