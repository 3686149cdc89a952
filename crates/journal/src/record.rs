//! The one port: where events go before the acts they describe.

use std::error::Error;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::{Event, EventError, Hash, SessionId};

/// Writes events down, in order.
pub trait Recorder: Send + Sync {
    /// Returns once the event is committed, and taken by every sink that must have it. On an error
    /// the act that it describes must not happen.
    fn record(&self, event: Event) -> impl Future<Output = Result<Recorded, RecordError>> + Send;
}

impl<R: Recorder> Recorder for Arc<R> {
    fn record(&self, event: Event) -> impl Future<Output = Result<Recorded, RecordError>> + Send {
        R::record(self, event)
    }
}

/// Writes events down together with what an execution needs to be run again.
pub trait KeepingRecorder: Recorder {
    /// As [`Recorder::record`]; the entries belong to the event's execution and are kept in the same commit, or not at all.
    fn record_keeping(
        &self,
        event: Event,
        entries: Vec<Entry>,
    ) -> impl Future<Output = Result<Recorded, RecordError>> + Send;

    /// Keeps more of what stands for personal data in a session, sealed. Returns once it is committed: nobody may see an alias
    /// before.
    fn keep_aliases(
        &self,
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
    ) -> impl Future<Output = Result<(), RecordError>> + Send;
}

impl<R: KeepingRecorder> KeepingRecorder for Arc<R> {
    fn record_keeping(
        &self,
        event: Event,
        entries: Vec<Entry>,
    ) -> impl Future<Output = Result<Recorded, RecordError>> + Send {
        R::record_keeping(self, event, entries)
    }

    fn keep_aliases(
        &self,
        session: SessionId,
        part: Zeroizing<Vec<u8>>,
    ) -> impl Future<Output = Result<(), RecordError>> + Send {
        R::keep_aliases(self, session, part)
    }
}

/// Something that an execution met from outside, kept so that it can be run again. Not part of the journal: sealed, and deleted
/// with its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The call that it belongs to; of a trace, the call that comes next.
    pub number: u32,
    /// What it is.
    pub kind: EntryKind,
    /// The thing itself, which only whoever wrote it understands.
    pub bytes: Vec<u8>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A call as it was made.
    Call,
    /// What it was answered.
    Answer,
    /// What else the program met since the call before: times, and the order of things.
    Trace,
}

/// Where an event stands in its session's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Its hash, over everything before it.
    pub hash: Hash,
}

/// What a person can do about a journal that is not the one that was signed last.
pub const LOST_HINT: &str = "run `ringfence audit verify` to see what is missing; restore the data folder from a newer copy, or go on without it by `ringfence audit accept-loss`";

/// Why an event is not written. Every caller whose event was in the same commit gets the same.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// The session was not opened here, or belongs to another process.
    #[error("session `{session}` does not belong to this process")]
    NotOwned {
        /// The session.
        session: SessionId,
    },
    /// The session is closed: nothing follows.
    #[error("session `{session}` is closed")]
    Closed {
        /// The session.
        session: SessionId,
    },
    /// The session's chain in the journal goes on elsewhere: it was written by somebody else.
    #[error("the journal already holds another record {seq} of session `{session}`")]
    Forked {
        /// The session.
        session: SessionId,
        /// The number that is taken.
        seq: u64,
    },
    /// The event itself cannot be written.
    #[error("the event cannot be written")]
    Event {
        /// What is wrong with it.
        #[source]
        source: Arc<EventError>,
    },
    /// No space is left.
    #[error("the journal cannot grow: the disk is full")]
    Full {
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// Another process holds the journal for too long.
    #[error("the journal is locked by another process")]
    Locked {
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// The journal's file is not what it was.
    #[error("the journal is damaged")]
    Damaged {
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// The journal cannot be written for another reason.
    #[error("the journal cannot be written")]
    Write {
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// What belongs to the event, or would be kept by itself, cannot be kept: nothing was written.
    #[error("what an execution needs to be run again cannot be kept")]
    Keep {
        /// Why not.
        #[source]
        source: Cause,
    },
    /// The event is written, but a sink that must have it did not take it.
    #[error("{sink} did not take the event in time")]
    Sink {
        /// The sink.
        sink: String,
        /// What it said.
        #[source]
        source: Cause,
    },
    /// The journal is not the one that was signed last: nothing is written to it until an operator accepts that.
    #[error("nothing is written to the journal: {what}")]
    Lost {
        /// What is missing.
        what: String,
    },
    /// The session has written as much as its policy lets it.
    #[error("session `{session}` has written all of its {limit} bytes of journal")]
    Budget {
        /// The session.
        session: SessionId,
        /// How much that is.
        limit: u64,
    },
    /// The journal was closed while the event waited.
    #[error("the journal is closed")]
    Ended,
}

/// What the storage below said, shared by all callers of one commit.
pub type Cause = Arc<dyn Error + Send + Sync>;

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

    /// What a person can do about it.
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
