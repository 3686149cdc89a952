//! The commands of the writer, and the errors of recordings.

use std::sync::Arc;

use jiff::Timestamp;
use ringfence_journal::{
    ApprovalId, Cause, Entry, Event, ExecutionId, Hash, LeaseId, PolicyRef, Principal, RecordError, Recorded, SessionId,
};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::Ending;
use crate::approval::{Answer, ApprovalState, Question, Told};
use crate::claim::{Claim, Claimed};
use crate::prune::{Prune, Pruned};
use crate::recording::Recording;
use crate::seal::SealError;
use crate::session::{AdoptError, Opening};
use crate::stop::Target;

/// From this size on, sealing and writing take longer than a switch to another thread.
const HEAVY: usize = 128 * 1024;

pub(crate) type Reply<T, E = RecordError> = oneshot::Sender<Result<T, E>>;

/// A request to the writer, with the channel for its reply.
pub(crate) enum Command {
    /// Write an event of a session that this process owns, with an accompanying change.
    Record {
        event: Box<Event>,
        change: Option<Box<Change>>,
        reply: Reply<Recorded>,
    },
    /// Write a change without an event, of a session that this process owns.
    Change { change: Box<Change>, reply: Reply<()> },
    /// Create a session with its first event.
    Open {
        opening: Box<Opening>,
        lease: LeaseId,
        reply: Reply<Recorded>,
    },
    /// Adopt a session that no process owns, or that belongs to a lease whose lock is held.
    Adopt {
        session: SessionId,
        from: Option<LeaseId>,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Resume an execution that waits or was interrupted.
    Resume {
        execution: ExecutionId,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Release a session of a lease, if every execution in progress can be run again.
    Spare {
        session: SessionId,
        lease: LeaseId,
        reply: Reply<bool>,
    },
    /// Store one more part of the aliases of a session that this process owns.
    Alias {
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
        reply: Reply<()>,
    },
    /// Delete the recordings of a closed session, or of one ended execution.
    Forget {
        session: SessionId,
        execution: Option<ExecutionId>,
        reply: Reply<()>,
    },
    /// Answer an approval question.
    Answer {
        id: ApprovalId,
        shown: Hash,
        said: Box<Answer>,
        reply: Reply<Told>,
    },
    /// Settle an approval question without a person.
    Settle {
        id: ApprovalId,
        state: ApprovalState,
        reply: Reply<Option<ApprovalState>>,
    },
    /// Adopt a session that no process owns and in which nothing waits for a person.
    Enter {
        session: SessionId,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Release a session without executions in progress to the process that uses its files next.
    Park { session: SessionId, reply: Reply<()> },
    /// Note the size of a session's workspace.
    Counted {
        session: SessionId,
        bytes: u64,
        files: u64,
        reply: Reply<()>,
    },
    /// Release a session, so that another process can adopt it.
    Release { session: SessionId, reply: Reply<()> },
    /// Promise a run to a client, unless its key already started another.
    Claim {
        claim: Box<Claim>,
        lease: LeaseId,
        reply: Reply<Claimed>,
    },
    /// Move a promise to another lease.
    Reclaim {
        execution: ExecutionId,
        from: LeaseId,
        to: LeaseId,
        reply: Reply<bool>,
    },
    /// Store a policy of a session under its digest.
    Keep {
        session: SessionId,
        policy: PolicyRef,
        json: String,
        reply: Reply<()>,
    },
    /// Record stop requests for sessions; replies with the leases that own them.
    Stop {
        target: Target,
        by: Principal,
        reply: Reply<Vec<(SessionId, Option<LeaseId>)>>,
    },
    /// Remove a part of the old records.
    Prune { what: Prune, reply: Reply<Pruned> },
    /// Commit the write-ahead queue.
    CatchUp { reply: Reply<()> },
    /// Write what is queued, then end the writer.
    Close { ending: Ending, reply: oneshot::Sender<()> },
}

impl Command {
    /// The change that is stored beside or without an event.
    pub(super) fn change(&self) -> Option<&Change> {
        match self {
            Command::Record { change, .. } => change.as_deref(),
            Command::Change { change, .. } => Some(change),
            Command::Open { .. }
            | Command::Alias { .. }
            | Command::Adopt { .. }
            | Command::Resume { .. }
            | Command::Spare { .. }
            | Command::Forget { .. }
            | Command::Answer { .. }
            | Command::Settle { .. }
            | Command::Enter { .. }
            | Command::Park { .. }
            | Command::Counted { .. }
            | Command::Release { .. }
            | Command::Claim { .. }
            | Command::Reclaim { .. }
            | Command::Keep { .. }
            | Command::Stop { .. }
            | Command::Prune { .. }
            | Command::CatchUp { .. }
            | Command::Close { .. } => None,
        }
    }

    pub(super) fn is_catching_up(&self) -> bool {
        matches!(self, Command::CatchUp { .. })
    }

    /// Whether the command takes so long that it runs on a blocking thread.
    pub(super) fn is_heavy(&self) -> bool {
        matches!(self, Command::Forget { .. } | Command::Prune { .. })
            || self.change().is_some_and(|change| change.weight() > HEAVY)
    }
}

/// A change to recordings or questions, written with an event or alone.
#[derive(Debug)]
pub(crate) enum Change {
    /// Begin the recording of an execution.
    Begin(Recording),
    /// Append replay entries of an execution.
    Keep {
        session: SessionId,
        execution: ExecutionId,
        entries: Vec<Entry>,
    },
    /// End a recording with its outcome.
    Finish {
        execution: ExecutionId,
        outcome: Vec<u8>,
        entries: Vec<Entry>,
    },
    /// Mark an execution that cannot be run again.
    Spoil { execution: ExecutionId, why: String },
    /// Mark an execution that only waits.
    Suspend {
        execution: ExecutionId,
        wake: Option<Timestamp>,
        entries: Vec<Entry>,
    },
    /// Insert an approval question.
    Ask {
        question: Box<Question>,
        entries: Vec<Entry>,
    },
}

impl Change {
    pub(super) fn execution(&self) -> ExecutionId {
        match self {
            Change::Begin(recording) => recording.execution,
            Change::Ask { question, .. } => question.execution,
            Change::Keep { execution, .. }
            | Change::Finish { execution, .. }
            | Change::Spoil { execution, .. }
            | Change::Suspend { execution, .. } => *execution,
        }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match self {
            Change::Keep { entries, .. }
            | Change::Finish { entries, .. }
            | Change::Suspend { entries, .. }
            | Change::Ask { entries, .. } => entries,
            Change::Begin(_) | Change::Spoil { .. } => &[],
        }
    }

    /// The number of bytes to seal.
    fn weight(&self) -> usize {
        let body = match self {
            Change::Begin(recording) => recording.request.len(),
            Change::Finish { outcome, .. } => outcome.len(),
            Change::Ask { question, .. } => question.arguments.len() + question.program.len(),
            Change::Keep { .. } | Change::Spoil { .. } | Change::Suspend { .. } => 0,
        };
        body + self.entries().iter().map(|entry| entry.bytes.len()).sum::<usize>()
    }
}

/// Why a recording or question cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
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
    Asked,
    #[error("an entry is longer than 4 GiB")]
    Length,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the question cannot be written")]
    Question(#[source] serde_json::Error),
}

impl From<KeepError> for RecordError {
    fn from(error: KeepError) -> RecordError {
        let source: Cause = Arc::new(error);
        RecordError::Keep { source }
    }
}
