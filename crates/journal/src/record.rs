//! The one port: where events go before the acts they describe.

use std::error::Error;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{ContentHash, Event, EventError, SessionId};

/// Writes events in order.
pub trait Recorder: Send + Sync {
    /// Returns once the event is committed and every durable sink has accepted it. On an error the act that it describes must not happen.
    fn record(&self, event: Event) -> impl Future<Output = Result<RecordPosition, RecordError>> + Send;
}

impl<R: Recorder> Recorder for Arc<R> {
    fn record(&self, event: Event) -> impl Future<Output = Result<RecordPosition, RecordError>> + Send {
        R::record(self, event)
    }
}

/// Writes events together with the replay entries of an execution.
pub trait ReplayRecorder: Recorder {
    /// As [`Recorder::record`]; the entries belong to the event's execution and are stored in the same commit, or not at all.
    fn record_with_entries(
        &self,
        event: Event,
        entries: Vec<ReplayEntry>,
    ) -> impl Future<Output = Result<RecordPosition, RecordError>> + Send;

    /// Stores one more sealed part of a session's aliases. Returns once it is committed: no alias may be shown before that.
    fn store_aliases(
        &self,
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
    ) -> impl Future<Output = Result<(), RecordError>> + Send;
}

impl<R: ReplayRecorder> ReplayRecorder for Arc<R> {
    fn record_with_entries(
        &self,
        event: Event,
        entries: Vec<ReplayEntry>,
    ) -> impl Future<Output = Result<RecordPosition, RecordError>> + Send {
        R::record_with_entries(self, event, entries)
    }

    fn store_aliases(
        &self,
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
    ) -> impl Future<Output = Result<(), RecordError>> + Send {
        R::store_aliases(self, session, part)
    }
}

/// A replay entry: input from outside that an execution needs to be run again. It is not part of the journal: it is sealed, and deleted
/// with its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayEntry {
    /// The call that the entry belongs to; a trace entry belongs to the next call.
    pub number: u32,
    /// Which part of a call or trace the bytes hold.
    pub kind: ReplayEntryKind,
    /// The content, in a format that only its writer understands.
    pub bytes: Vec<u8>,
}

/// The kind of a replay entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplayEntryKind {
    /// A call as the program made it.
    Call,
    /// The answer to a call.
    Answer,
    /// Other input since the previous call: times, and the order of events.
    Trace,
}

/// The position of an event in its session's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPosition {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Its hash, which covers all records up to this one.
    pub hash: ContentHash,
}

/// The hint for a journal that does not contain the newest signed head.
pub const LOST_HINT: &str = "run `ringfence audit verify` to see what is missing; restore the data folder from a newer copy, or go on without it by `ringfence audit accept-loss`";

/// Why an event is not written. Every caller in the same commit gets the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// The session was not opened by this process, or belongs to another one.
    #[error("session `{session}` does not belong to this process")]
    NotOwned {
        /// The session that the event names.
        session: SessionId,
    },
    /// The session is closed, so no record may follow.
    #[error("session `{session}` is closed")]
    Closed {
        /// The session that is closed.
        session: SessionId,
    },
    /// Another writer has already appended to the session's chain.
    #[error("the journal already holds another record {seq} of session `{session}`")]
    Forked {
        /// The session whose chain forks.
        session: SessionId,
        /// The record number that is already used.
        seq: u64,
    },
    /// The event itself cannot be written.
    #[error("the event cannot be written")]
    Event {
        /// Why the event has no canonical text.
        #[source]
        source: Arc<EventError>,
    },
    /// The disk has no space left.
    #[error("the journal cannot grow: the disk is full")]
    Full {
        /// The error of the database.
        #[source]
        source: SharedCause,
    },
    /// Another process holds the lock of the journal for too long.
    #[error("the journal is locked by another process")]
    Locked {
        /// The error of the database.
        #[source]
        source: SharedCause,
    },
    /// The journal's file is damaged.
    #[error("the journal is damaged")]
    Damaged {
        /// The error of the database.
        #[source]
        source: SharedCause,
    },
    /// The journal cannot be written for another reason.
    #[error("the journal cannot be written")]
    Write {
        /// The error of the database.
        #[source]
        source: SharedCause,
    },
    /// Replay entries or aliases cannot be stored: nothing was written.
    #[error("what an execution needs to be run again cannot be kept")]
    Keep {
        /// Why they cannot be stored.
        #[source]
        source: SharedCause,
    },
    /// The event is committed, but a durable sink did not accept it in time.
    #[error("{sink} did not take the event in time")]
    Sink {
        /// The name of the sink, as in the log.
        sink: String,
        /// Why the sink did not accept it.
        #[source]
        source: SharedCause,
    },
    /// The newest signed head is missing from the journal: nothing is written until an operator accepts the loss.
    #[error("nothing is written to the journal: {what}")]
    Lost {
        /// A description of the loss.
        what: String,
    },
    /// The session has used its whole journal budget.
    #[error("session `{session}` has written all of its {limit} bytes of journal")]
    Budget {
        /// The session whose budget is used up.
        session: SessionId,
        /// The budget in bytes, set by the policy.
        limit: u64,
    },
    /// The journal was closed before the event was written.
    #[error("the journal is closed")]
    Ended,
}

/// The underlying error, shared by all callers of one commit.
pub type SharedCause = Arc<dyn Error + Send + Sync>;

impl RecordError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            RecordError::NotOwned { .. } => "session.not_owned",
            RecordError::Closed { .. } => "session.closed",
            RecordError::Forked { .. } => "journal.forked",
            RecordError::Event { .. } => "journal.event",
            RecordError::Full { .. } => "store.full",
            RecordError::Locked { .. } => "store.locked",
            RecordError::Damaged { .. } => "store.damaged",
            RecordError::Write { .. } => "store.write",
            RecordError::Keep { .. } => "store.keep",
            RecordError::Sink { .. } => "audit.sink",
            RecordError::Lost { .. } => "journal.lost",
            RecordError::Budget { .. } => "limit.journal",
            RecordError::Ended => "store.closed",
        }
    }

    /// What a person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RecordError::Full { .. } => Some("free space where the data folder lies, then retry"),
            RecordError::Locked { .. } => {
                Some("another program holds the database open for writing; end it, then retry")
            }
            RecordError::Damaged { .. } => {
                Some("run `ringfence audit verify`, then restore the data folder from a copy or move it away")
            }
            RecordError::Forked { .. } => Some("run `ringfence audit verify`"),
            RecordError::Sink { .. } => {
                Some("look at the sink's endpoint; nothing happens without it while `audit.sinks` says `durable: true`")
            }
            RecordError::Lost { .. } => Some(LOST_HINT),
            RecordError::Budget { .. } => {
                Some("open a new session, make fewer calls, or raise `audit.session_bytes` in the policy")
            }
            RecordError::NotOwned { .. }
            | RecordError::Closed { .. }
            | RecordError::Event { .. }
            | RecordError::Write { .. }
            | RecordError::Keep { .. }
            | RecordError::Ended => None,
        }
    }
}
