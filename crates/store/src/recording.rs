//! Recordings: what executions need to be run again, the status of each, and which process resumes it.
//!
//! The process that owns the session writes the recording. Its content is opaque here, sealed before the write lock is taken, and never
//! part of the journal.

use jiff::Timestamp;
use ringfence_journal::{
    Event, ExecutionId, LeaseId, RecordError, RecordPosition, Recorder as _, ReplayEntry, ReplayRecorder, SessionId,
};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::database::{self, QueryError};
use crate::lease::{FormerOwner, OwnerEnd};
use crate::query::{Query, QueryRow, query};
use crate::seal::{SealContext, SealError};
use crate::writer::{RecordingChange, WriterCommand, entry_codec};
use crate::{AdoptError, Lease, Store};

/// The most executions that one query returns.
const MAX_PAGE_SIZE: u32 = 1000;

/// The start of an execution's recording.
#[derive(Debug, Clone)]
pub struct NewRecording {
    /// The execution that is recorded.
    pub execution: ExecutionId,
    /// Its session, which this process owns.
    pub session: SessionId,
    /// Everything that is needed to run it again, in the caller's format.
    pub request: Vec<u8>,
    /// The name under which its session stays open afterwards, in the caller's format; `None` if the session ends with it.
    pub stays: Option<String>,
}

/// The state of a recorded execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// A process runs it.
    Running,
    /// It only waits, and has released its sandbox.
    Waiting,
    /// Its process died; it can be run again.
    Interrupted,
    /// It has ended and cannot be resumed.
    Over,
}

impl RecordingState {
    pub(crate) fn from_name(name: &str) -> Option<RecordingState> {
        match name {
            "running" => Some(RecordingState::Running),
            "waiting" => Some(RecordingState::Waiting),
            "interrupted" => Some(RecordingState::Interrupted),
            "over" => Some(RecordingState::Over),
            _ => None,
        }
    }
}

/// The status of a recorded execution, without the recorded data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// The execution that is recorded.
    pub execution: ExecutionId,
    /// The session that the execution belongs to.
    pub session: SessionId,
    /// The current state of the execution.
    pub state: RecordingState,
    /// Why it cannot be run again; `None` if it can.
    pub spoiled: Option<String>,
    /// The name under which its session stays open afterwards; `None` if the session ends with it.
    pub stays: Option<String>,
    /// When it resumes by itself; `None` if it does not.
    pub due: Option<Timestamp>,
    /// Size of the recorded entries in bytes.
    pub bytes: u64,
}

/// The complete recording of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecording {
    /// The status without the recorded data.
    pub standing: RecordingStatus,
    /// Everything that is needed to run it again.
    pub request: Vec<u8>,
    /// The recorded entries, in the order of commits.
    pub entries: Vec<ReplayEntry>,
    /// The recorded outcome; `None` before the end.
    pub outcome: Option<Vec<u8>>,
}

impl ReplayRecorder for Store {
    async fn record_with_entries(
        &self,
        event: Event,
        entries: Vec<ReplayEntry>,
    ) -> Result<RecordPosition, RecordError> {
        let Some(execution) = event.execution.filter(|_| !entries.is_empty()) else {
            return self.record(event).await;
        };
        let change = RecordingChange::Keep {
            session: event.session,
            execution,
            entries,
        };
        self.record_with_change(event, change).await
    }

    async fn store_aliases(&self, session: SessionId, part: Zeroizing<Vec<u8>>) -> Result<(), RecordError> {
        self.send(|reply| WriterCommand::KeepAliases { session, part, reply })
            .await
    }
}

impl Store {
    pub(crate) async fn record_with_change(
        &self,
        event: Event,
        change: RecordingChange,
    ) -> Result<RecordPosition, RecordError> {
        let (event, change) = (Box::new(event), Some(Box::new(change)));
        self.send(|reply| WriterCommand::Record { event, change, reply }).await
    }

    pub(crate) async fn apply_change(&self, change: RecordingChange) -> Result<(), RecordError> {
        let change = Box::new(change);
        self.send(|reply| WriterCommand::Change { change, reply }).await
    }

    /// Begins the recording of an execution; its session must belong to this process.
    pub async fn begin_recording(&self, recording: NewRecording) -> Result<(), RecordError> {
        self.apply_change(RecordingChange::Begin(recording)).await
    }

    /// As [`Store::begin_recording`], in the same commit as the event of the start.
    pub async fn record_start_with_recording(
        &self,
        event: Event,
        recording: NewRecording,
    ) -> Result<RecordPosition, RecordError> {
        self.record_with_change(event, RecordingChange::Begin(recording)).await
    }

    /// Records replay entries that no event accompanies.
    pub async fn keep_entries(
        &self,
        session: SessionId,
        execution: ExecutionId,
        entries: Vec<ReplayEntry>,
    ) -> Result<(), RecordError> {
        let change = RecordingChange::Keep {
            session,
            execution,
            entries,
        };
        self.apply_change(change).await
    }

    /// Records the outcome of an execution, which has ended.
    pub async fn finish_recording(&self, execution: ExecutionId, outcome: Vec<u8>) -> Result<(), RecordError> {
        let entries = Vec::new();
        let change = RecordingChange::Finish {
            execution,
            outcome,
            entries,
        };
        self.apply_change(change).await
    }

    /// As [`Store::finish_recording`], with the last entries, in the same commit as the event of the end.
    pub async fn record_end_with_outcome(
        &self,
        event: Event,
        outcome: Vec<u8>,
        entries: Vec<ReplayEntry>,
    ) -> Result<RecordPosition, RecordError> {
        let Some(execution) = event.execution else {
            return self.record(event).await;
        };
        let change = RecordingChange::Finish {
            execution,
            outcome,
            entries,
        };
        self.record_with_change(event, change).await
    }

    /// Marks an execution that cannot be run again, with the reason; the first reason stays.
    pub async fn mark_unrepeatable(&self, execution: ExecutionId, why: &str) -> Result<(), RecordError> {
        let why = why.to_owned();
        self.apply_change(RecordingChange::MarkUnrepeatable { execution, why })
            .await
    }

    /// Records that an execution has released its sandbox, with its last entries. It resumes at `wake`, when one of its questions is
    /// answered, or when one expires; in another process once its session is [released](Store::release_session).
    pub async fn suspend(
        &self,
        event: Event,
        wake: Option<Timestamp>,
        entries: Vec<ReplayEntry>,
    ) -> Result<RecordPosition, RecordError> {
        match event.execution {
            Some(execution) => {
                let change = RecordingChange::Suspend {
                    execution,
                    wake,
                    entries,
                };
                self.record_with_change(event, change).await
            }
            None => Err(RecordError::NotOwned { session: event.session }),
        }
    }

    /// Resumes an execution that waits or was interrupted: its session now belongs to the lease. Of two processes that try, one succeeds.
    pub async fn resume(&self, lease: &Lease, execution: ExecutionId) -> Result<(), AdoptError> {
        let to = self.note_lease(lease);
        self.send(|reply| WriterCommand::Resume { execution, to, reply }).await
    }

    /// Releases a session of the lease for another process, if everything in progress in it can be run again; returns whether it can.
    pub async fn leave_unfinished(&self, lease: &Lease, session: SessionId) -> Result<bool, RecordError> {
        let lease = self.note_lease(lease);
        self.send(|reply| WriterCommand::LeaveUnfinished {
            session,
            from: FormerOwner {
                lease,
                end: OwnerEnd::Died,
            },
            reply,
        })
        .await
    }

    /// Deletes the recordings and questions of a closed session; the journal stays.
    pub async fn forget_recordings(&self, session: SessionId) -> Result<(), RecordError> {
        let execution = None;
        self.send(|reply| WriterCommand::Forget {
            session,
            execution,
            reply,
        })
        .await
    }

    /// The status of a recorded execution; `None` without a recording.
    pub async fn recording_status(&self, execution: ExecutionId) -> Result<Option<RecordingStatus>, QueryError> {
        let reader = self.reader().await;
        let sql = format!("SELECT {} FROM recordings r WHERE execution = ?", status_columns());
        let row = query(sql).bind(execution.to_string()).fetch_optional(&reader).await?;
        row.as_ref().map(status_from_row).transpose()
    }

    /// The complete recording of an execution; `None` without one.
    pub async fn recording(&self, execution: ExecutionId) -> Result<Option<StoredRecording>, QueryError> {
        let reader = self.reader().await;
        let sql = format!(
            "SELECT {}, request, outcome, (SELECT sealed FROM keys WHERE keys.session = r.session) AS key
             FROM recordings r WHERE execution = ?",
            status_columns()
        );
        let row = query(sql).bind(execution.to_string()).fetch_optional(&reader).await?;
        let Some(row) = row else { return Ok(None) };
        let rows = query(PIECES).bind(execution.to_string()).fetch_all(&reader).await?;
        drop(reader);
        let seals = self.seals.clone();
        // There may be many megabytes to unseal.
        let opened = tokio::task::spawn_blocking(move || unseal_recording(&seals, &row, &rows)).await;
        opened.map_err(QueryError::Interrupted)?.map(Some)
    }

    /// Size of an execution's recorded entries in bytes; 0 without a recording.
    pub async fn recording_bytes(&self, execution: ExecutionId) -> Result<u64, QueryError> {
        let reader = self.reader().await;
        let sql = format!("SELECT {RECORDED_BYTES} FROM recordings r WHERE execution = ?");
        let total: Option<i64> = query(sql).bind(execution.to_string()).fetch_scalar(&reader).await?;
        Ok(total.and_then(|total| u64::try_from(total).ok()).unwrap_or(0))
    }

    /// Executions that can resume now and belong to this process or to none: one of their questions is answered or expired, or their wake
    /// time has come. Earliest first.
    pub async fn ready_executions(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<(ExecutionId, SessionId)>, QueryError> {
        let sql = "SELECT execution, session FROM recordings r WHERE due <= ?1 AND spoiled IS NULL AND EXISTS
                (SELECT 1 FROM sessions s WHERE s.id = r.session AND s.state = 'open' AND (s.lease IS NULL OR s.lease = ?2))
             ORDER BY due LIMIT ?3";
        let query = query(sql).bind(to_nanoseconds(now)).bind(self.lease_name());
        self.execution_sessions(query.bind(i64::from(limit.min(MAX_PAGE_SIZE))))
            .await
    }

    /// When the next execution that belongs to this process or to none resumes by itself.
    pub async fn next_due_time(&self) -> Result<Option<Timestamp>, QueryError> {
        let reader = self.reader().await;
        let due: Option<i64> = query(
            "SELECT due FROM recordings r WHERE due IS NOT NULL AND spoiled IS NULL AND EXISTS
                (SELECT 1 FROM sessions s WHERE s.id = r.session AND s.state = 'open' AND (s.lease IS NULL OR s.lease = ?))
             ORDER BY due LIMIT 1",
        )
        .bind(self.lease_name())
        .fetch_scalar(&reader)
.await?;
        Ok(due.map(from_nanoseconds))
    }

    /// Interrupted executions that no process has resumed and that wait for nobody, oldest first.
    pub async fn interrupted_executions(&self, limit: u32) -> Result<Vec<(ExecutionId, SessionId)>, QueryError> {
        let query = query(
            "SELECT execution, session FROM recordings WHERE state = 'interrupted' AND due IS NULL ORDER BY execution LIMIT ?",
        );
        self.execution_sessions(query.bind(i64::from(limit.min(MAX_PAGE_SIZE))))
            .await
    }

    async fn execution_sessions(&self, query: Query) -> Result<Vec<(ExecutionId, SessionId)>, QueryError> {
        let reader = self.reader().await;
        let rows = query.fetch_all(&reader).await?;
        let pair = |row: &QueryRow| {
            Ok((
                database::parse_column(row, TABLE, "execution")?,
                database::parse_column(row, TABLE, "session")?,
            ))
        };
        rows.iter().map(pair).collect()
    }

    /// Notes the lease under which this process owns sessions.
    pub(crate) fn note_lease(&self, lease: &Lease) -> LeaseId {
        let id = lease.id();
        *self.lease.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(id);
        id
    }

    fn lease_name(&self) -> Option<String> {
        let lease = self.lease.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lease.map(|id| id.to_string())
    }
}

const TABLE: &str = "recordings";

/// Size of the recorded entries of recording `r` in bytes: the larger total of its last row in either table.
pub(crate) const RECORDED_BYTES: &str = "max(
    coalesce((SELECT e.total FROM entries e WHERE e.execution = r.execution ORDER BY e.n DESC LIMIT 1), 0),
    coalesce((SELECT e.total FROM events e WHERE e.session = r.session AND e.seq > coalesce(r.since, 0)
        AND e.execution = r.execution AND e.piece IS NOT NULL ORDER BY e.seq DESC LIMIT 1), 0))";

/// The status columns of recording `r`; an ended recording does not grow.
fn status_columns() -> String {
    format!(
        "execution, session, state, spoiled, stays, due, CASE state WHEN 'over' THEN bytes ELSE {RECORDED_BYTES} END AS bytes"
    )
}

/// The pieces of a recording in order, from both tables.
const PIECES: &str = "SELECT n, sealed FROM entries WHERE execution = ?1
    UNION ALL
    SELECT e.piece, e.sealed FROM recordings r JOIN events e
        ON e.session = r.session AND e.seq > coalesce(r.since, 0) AND e.execution = r.execution
    WHERE r.execution = ?1 AND e.piece IS NOT NULL
    ORDER BY 1";

fn status_from_row(row: &QueryRow) -> Result<RecordingStatus, QueryError> {
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let state: &str = row.get("state").map_err(|_| damaged("state"))?;
    let due: Option<i64> = row.get("due").map_err(|_| damaged("due"))?;
    Ok(RecordingStatus {
        execution: database::parse_column(row, TABLE, "execution")?,
        session: database::parse_column(row, TABLE, "session")?,
        state: RecordingState::from_name(state).ok_or_else(|| damaged("state"))?,
        spoiled: row.get("spoiled").map_err(|_| damaged("spoiled"))?,
        stays: row.get("stays").map_err(|_| damaged("stays"))?,
        due: due.map(from_nanoseconds),
        bytes: database::unsigned_column(row, TABLE, "bytes")?,
    })
}

fn unseal_recording(
    seals: &crate::seal::SealKeyring,
    row: &QueryRow,
    rows: &[QueryRow],
) -> Result<StoredRecording, QueryError> {
    let standing = status_from_row(row)?;
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let session = standing.session;
    let execution = standing.execution.to_string();
    let sealed = |place: SealContext<'_>| {
        let what = place.to_string();
        move |source| QueryError::Sealed { what, source }
    };
    let request = SealContext::Request(&execution);
    let key: Option<&[u8]> = row.get("key").map_err(|_| damaged("key"))?;
    let key = key
        .ok_or(SealError::Deleted { session })
        .and_then(|key| seals.unwrap_session_key(session, key))
        .map_err(sealed(request))?;
    let open = |place, bytes: &[u8]| key.unseal(place, bytes).map_err(sealed(place));
    let bytes: &[u8] = row.get("request").map_err(|_| damaged("request"))?;
    let request = open(request, bytes)?.to_vec();
    let outcome: Option<&[u8]> = row.get("outcome").map_err(|_| damaged("outcome"))?;
    let outcome = outcome
        .map(|bytes| open(SealContext::Outcome(&execution), bytes))
        .transpose()?;
    let mut entries = Vec::new();
    for (expected, row) in (1..).zip(rows) {
        let damaged = |column| QueryError::Row {
            table: "entries",
            column,
        };
        // A missing piece would be a gap in the replay.
        let n: i64 = row.get("n").map_err(|_| damaged("n"))?;
        if n != expected {
            return Err(damaged("n"));
        }
        // A piece without bytes is no piece: it does not open.
        let bytes: Option<&[u8]> = row.get("sealed").map_err(|_| damaged("sealed"))?;
        let bytes = bytes.unwrap_or_default();
        let place = SealContext::Entries(&execution, n);
        let piece = open(place, bytes)?;
        entry_codec::split_entries(&piece, &mut entries).ok_or_else(|| sealed(place)(SealError::Damaged))?;
    }
    Ok(StoredRecording {
        standing,
        request,
        entries,
        outcome: outcome.map(|outcome| outcome.to_vec()),
    })
}

/// Converts a time to its stored form, which compares as a number.
pub(crate) fn to_nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// Converts a stored time back.
pub(crate) fn from_nanoseconds(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::MAX)
}
