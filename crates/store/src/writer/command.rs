//! What the writer can be asked, and why something cannot be kept.

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

/// From so many bytes on, sealing and writing takes longer than the way to another thread.
const HEAVY: usize = 128 * 1024;

pub(crate) type Reply<T, E = RecordError> = oneshot::Sender<Result<T, E>>;

/// What the writer can be asked.
pub(crate) enum Command {
    /// Write an event of a session that this process owns, and what belongs to it.
    Record {
        event: Box<Event>,
        change: Option<Box<Change>>,
        reply: Reply<Recorded>,
    },
    /// Write something that no event says, of a session that this process owns.
    Change { change: Box<Change>, reply: Reply<()> },
    /// Make a session, with its first event.
    Open {
        opening: Box<Opening>,
        lease: LeaseId,
        reply: Reply<Recorded>,
    },
    /// Go on with a session that belongs to nobody, or to a lease whose lock is held.
    Adopt {
        session: SessionId,
        from: Option<LeaseId>,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Go on with an execution that waits.
    Resume {
        execution: ExecutionId,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Leave a session of a lease to whoever goes on with it, if all that was under way can be run again.
    Spare {
        session: SessionId,
        lease: LeaseId,
        reply: Reply<bool>,
    },
    /// Keep more of what stands for personal data in a session that this process owns.
    Alias {
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
        reply: Reply<()>,
    },
    /// Delete what a session that is over has sealed; or what was kept of one execution that is.
    Forget {
        session: SessionId,
        execution: Option<ExecutionId>,
        reply: Reply<()>,
    },
    /// Answer a question, for whoever asked it.
    Answer {
        id: ApprovalId,
        shown: Hash,
        said: Box<Answer>,
        reply: Reply<Told>,
    },
    /// Settle a question without a person.
    Settle {
        id: ApprovalId,
        state: ApprovalState,
        reply: Reply<Option<ApprovalState>>,
    },
    /// Go on with a session that belongs to nobody and in which nothing waits for a person.
    Enter {
        session: SessionId,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Leave a session, in which nothing is under way, to whoever uses its files next.
    Park { session: SessionId, reply: Reply<()> },
    /// Note how much the files of a session are.
    Counted {
        session: SessionId,
        bytes: u64,
        files: u64,
        reply: Reply<()>,
    },
    /// Leave a session to whoever wants it next.
    Release { session: SessionId, reply: Reply<()> },
    /// Promise a run to a client, unless its key began another.
    Claim {
        claim: Box<Claim>,
        lease: LeaseId,
        reply: Reply<Claimed>,
    },
    /// Take a promise over.
    Reclaim {
        execution: ExecutionId,
        from: LeaseId,
        to: LeaseId,
        reply: Reply<bool>,
    },
    /// A policy is kept, by its digest.
    Keep {
        policy: PolicyRef,
        json: String,
        reply: Reply<()>,
    },
    /// Write down that sessions should stop; answers with their leases.
    Stop {
        target: Target,
        by: Principal,
        reply: Reply<Vec<(SessionId, Option<LeaseId>)>>,
    },
    /// Remove a part of what was kept long enough.
    Prune { what: Prune, reply: Reply<Pruned> },
    /// Let the database have all that was answered.
    CatchUp { reply: Reply<()> },
    /// Write what waits, and end.
    Close { ending: Ending, reply: oneshot::Sender<()> },
}

impl Command {
    /// What it keeps beside events.
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

    /// Whether it takes so long that it is done on a thread of its own.
    pub(super) fn is_heavy(&self) -> bool {
        matches!(self, Command::Forget { .. } | Command::Prune { .. })
            || self.change().is_some_and(|change| change.weight() > HEAVY)
    }
}

/// What is written beside an event, or by itself.
#[derive(Debug)]
pub(crate) enum Change {
    /// A recording begins.
    Begin(Recording),
    /// An execution met something.
    Keep {
        session: SessionId,
        execution: ExecutionId,
        entries: Vec<Entry>,
    },
    /// A recording is over.
    Finish {
        execution: ExecutionId,
        outcome: Vec<u8>,
        entries: Vec<Entry>,
    },
    /// An execution cannot be run again.
    Spoil { execution: ExecutionId, why: String },
    /// An execution only waits.
    Suspend {
        execution: ExecutionId,
        wake: Option<Timestamp>,
        entries: Vec<Entry>,
    },
    /// A person is asked.
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

    /// How much there is to seal.
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

/// Why something cannot be kept.
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
