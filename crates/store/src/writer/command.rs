//! The commands of the writer, and the errors of recordings.

use std::sync::Arc;

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalId, ContentHash, Event, ExecutionId, LeaseId, PolicyRef, Principal, RecordError, RecordPosition,
    ReplayEntry, SessionId, SharedCause,
};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::ShutdownMode;
use crate::approval::{AnswerStatus, ApprovalQuestion, ApprovalResponse, ApprovalState};
use crate::idempotency::{IdempotencyClaim, IdempotencyOutcome};
use crate::lease::FormerOwner;
use crate::prune::{PruneRequest, PruneSummary};
use crate::recording::NewRecording;
use crate::seal::SealError;
use crate::session::{AdoptError, NewSession};
use crate::stop::StopTarget;

/// From this size on, sealing and writing take longer than a switch to another thread.
const HEAVY_BYTES: usize = 128 * 1024;

pub(crate) type ReplySender<T, E = RecordError> = oneshot::Sender<Result<T, E>>;

/// A request to the writer, with the channel for its reply.
pub(crate) enum WriterCommand {
    /// Write an event of a session that this process owns, with an accompanying change.
    Record {
        event: Box<Event>,
        change: Option<Box<RecordingChange>>,
        reply: ReplySender<RecordPosition>,
    },
    /// Write a change without an event, of a session that this process owns.
    Change {
        change: Box<RecordingChange>,
        reply: ReplySender<()>,
    },
    /// Create a session with its first event.
    Open {
        opening: Box<NewSession>,
        lease: LeaseId,
        reply: ReplySender<RecordPosition>,
    },
    /// Adopt a session that no process owns, or that belongs to a lease whose lock is held.
    Adopt {
        session: SessionId,
        from: Option<LeaseId>,
        to: LeaseId,
        reply: ReplySender<(), AdoptError>,
    },
    /// Resume an execution that waits or was interrupted.
    Resume {
        execution: ExecutionId,
        to: LeaseId,
        reply: ReplySender<(), AdoptError>,
    },
    /// Release a session of a lease, if every execution in progress can be run again, and none of them failed with its owner.
    LeaveUnfinished {
        session: SessionId,
        /// The lease that it belongs to, and how that ended.
        from: FormerOwner,
        reply: ReplySender<bool>,
    },
    /// Store one more part of the aliases of a session that this process owns.
    KeepAliases {
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
        reply: ReplySender<()>,
    },
    /// Delete the recordings of a closed session, or of one ended execution.
    Forget {
        session: SessionId,
        execution: Option<ExecutionId>,
        reply: ReplySender<()>,
    },
    /// Answer an approval question.
    Answer {
        id: ApprovalId,
        shown: ContentHash,
        said: Box<ApprovalResponse>,
        reply: ReplySender<AnswerStatus>,
    },
    /// Settle an approval question without a person.
    Settle {
        id: ApprovalId,
        state: ApprovalState,
        reply: ReplySender<Option<ApprovalState>>,
    },
    /// Adopt a session that no process owns and in which nothing waits for a person.
    Enter {
        session: SessionId,
        to: LeaseId,
        reply: ReplySender<(), AdoptError>,
    },
    /// Release a session without executions in progress to the process that uses its files next.
    Park { session: SessionId, reply: ReplySender<()> },
    /// Note the size of a session's workspace.
    NoteWorkspace {
        session: SessionId,
        bytes: u64,
        files: u64,
        reply: ReplySender<()>,
    },
    /// Release a session, so that another process can adopt it.
    Release { session: SessionId, reply: ReplySender<()> },
    /// Promise a run to a client, unless its key already started another.
    Claim {
        claim: Box<IdempotencyClaim>,
        lease: LeaseId,
        reply: ReplySender<IdempotencyOutcome>,
    },
    /// Move a promise to another lease.
    Reclaim {
        execution: ExecutionId,
        from: LeaseId,
        to: LeaseId,
        reply: ReplySender<bool>,
    },
    /// Store a policy of a session under its digest.
    KeepPolicy {
        session: SessionId,
        policy: PolicyRef,
        json: String,
        reply: ReplySender<()>,
    },
    /// Record stop requests for sessions; replies with the leases that own them.
    Stop {
        target: StopTarget,
        by: Principal,
        reply: ReplySender<Vec<(SessionId, Option<LeaseId>)>>,
    },
    /// Remove a part of the old records.
    Prune {
        what: PruneRequest,
        reply: ReplySender<PruneSummary>,
    },
    /// Commit the write-ahead queue.
    CatchUp { reply: ReplySender<()> },
    /// Write what is queued, then end the writer.
    Close {
        ending: ShutdownMode,
        reply: oneshot::Sender<()>,
    },
}

impl WriterCommand {
    /// The change that is stored beside or without an event.
    pub(super) fn change(&self) -> Option<&RecordingChange> {
        match self {
            WriterCommand::Record { change, .. } => change.as_deref(),
            WriterCommand::Change { change, .. } => Some(change),
            WriterCommand::Open { .. }
            | WriterCommand::KeepAliases { .. }
            | WriterCommand::Adopt { .. }
            | WriterCommand::Resume { .. }
            | WriterCommand::LeaveUnfinished { .. }
            | WriterCommand::Forget { .. }
            | WriterCommand::Answer { .. }
            | WriterCommand::Settle { .. }
            | WriterCommand::Enter { .. }
            | WriterCommand::Park { .. }
            | WriterCommand::NoteWorkspace { .. }
            | WriterCommand::Release { .. }
            | WriterCommand::Claim { .. }
            | WriterCommand::Reclaim { .. }
            | WriterCommand::KeepPolicy { .. }
            | WriterCommand::Stop { .. }
            | WriterCommand::Prune { .. }
            | WriterCommand::CatchUp { .. }
            | WriterCommand::Close { .. } => None,
        }
    }

    pub(super) fn is_catching_up(&self) -> bool {
        matches!(self, WriterCommand::CatchUp { .. })
    }

    /// Whether the command takes so long that it runs on a blocking thread.
    pub(super) fn is_heavy(&self) -> bool {
        matches!(self, WriterCommand::Forget { .. } | WriterCommand::Prune { .. })
            || self.change().is_some_and(|change| change.bytes_to_seal() > HEAVY_BYTES)
    }
}

/// A change to recordings or questions, written with an event or alone.
#[derive(Debug)]
pub(crate) enum RecordingChange {
    /// Begin the recording of an execution.
    Begin(NewRecording),
    /// Append replay entries of an execution.
    Keep {
        session: SessionId,
        execution: ExecutionId,
        entries: Vec<ReplayEntry>,
    },
    /// End a recording with its outcome.
    Finish {
        execution: ExecutionId,
        outcome: Vec<u8>,
        entries: Vec<ReplayEntry>,
    },
    /// Mark an execution that cannot be run again.
    MarkUnrepeatable { execution: ExecutionId, why: String },
    /// Mark an execution that only waits.
    Suspend {
        execution: ExecutionId,
        wake: Option<Timestamp>,
        entries: Vec<ReplayEntry>,
    },
    /// Insert an approval question.
    Ask {
        question: Box<ApprovalQuestion>,
        entries: Vec<ReplayEntry>,
    },
}

impl RecordingChange {
    pub(super) fn execution(&self) -> ExecutionId {
        match self {
            RecordingChange::Begin(recording) => recording.execution,
            RecordingChange::Ask { question, .. } => question.execution,
            RecordingChange::Keep { execution, .. }
            | RecordingChange::Finish { execution, .. }
            | RecordingChange::MarkUnrepeatable { execution, .. }
            | RecordingChange::Suspend { execution, .. } => *execution,
        }
    }

    pub(super) fn entries(&self) -> &[ReplayEntry] {
        match self {
            RecordingChange::Keep { entries, .. }
            | RecordingChange::Finish { entries, .. }
            | RecordingChange::Suspend { entries, .. }
            | RecordingChange::Ask { entries, .. } => entries,
            RecordingChange::Begin(_) | RecordingChange::MarkUnrepeatable { .. } => &[],
        }
    }

    /// The number of bytes to seal.
    fn bytes_to_seal(&self) -> usize {
        let body = match self {
            RecordingChange::Begin(recording) => recording.request.len(),
            RecordingChange::Finish { outcome, .. } => outcome.len(),
            RecordingChange::Ask { question, .. } => question.arguments.len() + question.program.len(),
            RecordingChange::Keep { .. }
            | RecordingChange::MarkUnrepeatable { .. }
            | RecordingChange::Suspend { .. } => 0,
        };
        body + self.entries().iter().map(|entry| entry.bytes.len()).sum::<usize>()
    }
}

/// Why a recording or question cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("execution `{execution}` has no recording")]
    NoRecording { execution: ExecutionId },
    #[error("execution `{execution}` has a recording already")]
    Recorded { execution: ExecutionId },
    #[error("execution `{execution}` is over")]
    Over { execution: ExecutionId },
    #[error("it belongs to session `{other}`, not to `{session}`")]
    Elsewhere { session: SessionId, other: SessionId },
    #[error("execution `{execution}` lacks what came before")]
    Hole { execution: ExecutionId },
    #[error("the session `{session}` is still open")]
    Open { session: SessionId },
    #[error("the question was asked before")]
    AlreadyAsked,
    #[error("an entry is longer than 4 GiB")]
    Length,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the question cannot be written")]
    Question(#[source] serde_json::Error),
}

impl From<RecordingError> for RecordError {
    fn from(error: RecordingError) -> RecordError {
        let source: SharedCause = Arc::new(error);
        RecordError::Keep { source }
    }
}
