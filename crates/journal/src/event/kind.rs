//! What can happen: a closed set.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::parts::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, CallOutcome, Client, Enforcement, FileIn, FileOut, Found,
    Limits, LossCause, Output, PolicyRef, PrunedSession, ServerPlace, Status, Stream, Target, Truncated, Usage,
};
use crate::event::By;
use crate::{ApprovalId, ExecutionId, LeaseId, Principal, SessionId, Text};

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
        /// The execution that called it as a skill, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ExecutionId>,
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
    /// A call waits for a person.
    ApprovalAsked {
        /// What it is called in the inbox.
        id: ApprovalId,
        /// The call's number in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// The tool's full name.
        tool: Text,
        /// The rule that wants a person.
        rule: Text,
        /// Why.
        why: AskReason,
        /// blake3 of all that the person is shown and the answer is bound to.
        shown: crate::Hash,
        /// When no answer means no.
        #[serde(serialize_with = "super::parts::fixed_time")]
        expires: Timestamp,
    },
    /// A question to a person is settled, and the call goes on as it says.
    ApprovalAnswered {
        /// What it is called in the inbox.
        id: ApprovalId,
        /// The call's number in its execution.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// How.
        answer: ApprovalAnswer,
        /// For how long a yes holds.
        scope: Option<ApprovalScope>,
        /// Who answered, where somebody did.
        by: Option<Principal>,
        /// By which way the answer came.
        via: Option<ApprovalVia>,
    },
    /// An execution that only waits has given up its sandbox.
    ExecutionSuspended {
        /// Calls that it waits for.
        #[serde(serialize_with = "super::parts::safe")]
        waiting: u64,
        /// When it goes on even without an answer.
        #[serde(serialize_with = "super::parts::fixed_time_option")]
        until: Option<Timestamp>,
    },
    /// An execution goes on: it is run again from its beginning with what it was answered before.
    ExecutionResumed {
        /// Calls whose answers are known.
        #[serde(serialize_with = "super::parts::safe")]
        known: u64,
        /// Calls that were under way when its process died: nobody knows what they did.
        #[serde(serialize_with = "super::parts::safe")]
        unknown: u64,
    },
    /// Personal data or secrets were hidden before anybody was shown them, or for their sake nothing was shown.
    DataHidden {
        /// The call whose answer it was; none: what the execution itself shows.
        #[serde(serialize_with = "super::parts::safe_option")]
        number: Option<u64>,
        /// How much of each kind; never what.
        found: Vec<Found>,
        /// Whether all of it was held back.
        blocked: bool,
    },
    /// Aliases in the arguments of a call became the values that they stand for.
    DataRevealed {
        /// The call.
        #[serde(serialize_with = "super::parts::safe")]
        number: u64,
        /// How many.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
    },
    /// A person asked what an alias of a session stands for, and was told.
    AliasRevealed {
        /// The alias, never its value.
        alias: Text,
        /// The session that it belongs to.
        of: SessionId,
    },
    /// A part of what an execution shows was left out, or made harmless.
    DataCapped {
        /// `value`, `stdout`, `stderr`, or the path of a file.
        part: Text,
        /// Bytes that came.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Bytes of them that are not shown.
        #[serde(serialize_with = "super::parts::safe")]
        left_out: u64,
        /// Escapes, wrong bytes and imitated notices that were made harmless.
        #[serde(serialize_with = "super::parts::safe")]
        neutralised: u64,
    },
    /// A tool is not what it was when it was first used.
    ToolDrifted {
        /// The tool's full name.
        tool: Text,
        /// Its digest now.
        found: Text,
        /// When the other definition was pinned.
        #[serde(serialize_with = "super::parts::fixed_time")]
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
    /// A process goes on with a session, and finds the files that it kept.
    WorkspaceOpened {
        /// Bytes that it holds.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Files and folders that it holds.
        #[serde(serialize_with = "super::parts::safe")]
        files: u64,
    },
    /// Files that a session kept are about to be removed.
    WorkspaceRemoved {
        /// The places that they are in.
        mounts: Vec<Text>,
        /// Why.
        why: Text,
        /// Bytes that were last counted in them.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Files and folders that were last counted in them.
        #[serde(serialize_with = "super::parts::safe")]
        files: u64,
    },
    /// More of what was refused one by one before: counted, not listed.
    Repeated {
        /// The kind of event that would have been written each time, such as `call_refused`.
        of: Text,
        /// What it was about: the tool or the host, or `other` where there were too many to tell apart.
        what: Text,
        /// The stable code of the refusal.
        code: Text,
        /// The rule that refused.
        rule: Text,
        /// How many more there were.
        #[serde(serialize_with = "super::parts::safe")]
        count: u64,
    },
    /// Records that are missing were noticed, and writing went on without them.
    LossAccepted {
        /// The number of the head that the mark beside the key remembered; nothing where the mark itself was gone.
        #[serde(serialize_with = "super::parts::safe_option")]
        marked: Option<u64>,
        /// The number of the last head that was there.
        #[serde(serialize_with = "super::parts::safe")]
        found: u64,
        /// Why writing went on.
        cause: LossCause,
        /// Who said so, or whose process noticed it.
        by: Principal,
    },
    /// Records that were kept long enough are removed; their signed heads stay.
    JournalPruned {
        /// Sessions that were last used before this are removed.
        #[serde(serialize_with = "super::parts::fixed_time")]
        before: Timestamp,
        /// Which, and how many records each had.
        sessions: Vec<PrunedSession>,
        /// Records in all.
        #[serde(serialize_with = "super::parts::safe")]
        records: u64,
        /// Bytes of their events in all.
        #[serde(serialize_with = "super::parts::safe")]
        bytes: u64,
        /// Who said so, or whose process did it.
        by: Principal,
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

    /// Whether it is written although its session has no bytes left: it ends something that was begun, or says why.
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

    /// Whether it is the only record of a session that was never opened: what concerns the journal itself, or no session.
    pub fn stands_alone(&self) -> bool {
        matches!(
            self,
            Kind::Refused { .. } | Kind::Swept { .. } | Kind::LossAccepted { .. } | Kind::JournalPruned { .. }
        )
    }

    /// Whether it says that something was refused, reached its limit or is not as it was.
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
