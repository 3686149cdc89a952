//! Retention of recordings after their executions have ended.

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{ExecutionId, SessionId};

use crate::database::{self, QueryError};
use crate::query::{QueryRow, query};
use crate::writer::WriterCommand;
use crate::{Store, SweepError};

/// How many of the oldest candidates of each kind one trim reads, unless it may forget more.
const MAX_CANDIDATES: u32 = 1000;

/// How long and how much is kept of the recordings of ended executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingRetention {
    /// The age after which a recording is forgotten.
    pub age: SignedDuration,
    /// The most bytes of all recordings together.
    pub bytes: u64,
    /// How many candidates are forgotten in one trim. If it is too small, many small recordings in front of a few large ones let the total
    /// grow faster than it shrinks.
    pub at_once: u32,
}

impl RecordingRetention {
    /// The retention of a server, where no caller waits for a trim.
    #[must_use]
    pub fn for_server() -> RecordingRetention {
        RecordingRetention {
            at_once: 8192,
            ..RecordingRetention::default()
        }
    }
}

impl Default for RecordingRetention {
    /// Seven days and one GiB, in small steps because a caller waits.
    fn default() -> RecordingRetention {
        RecordingRetention {
            age: SignedDuration::from_hours(7 * 24),
            bytes: 1 << 30,
            at_once: 64,
        }
    }
}

/// A candidate for a trim: the recordings of a session that has ended, or one ended execution of an open session.
struct TrimCandidate {
    session: SessionId,
    execution: Option<ExecutionId>,
    used: Timestamp,
    bytes: u64,
}

/// Sessions that have ended and still have a key, oldest first. Open sessions have keys too and may be older.
const SESSIONS: &str =
    "SELECT s.id, NULL AS execution, s.used, coalesce((SELECT sum(bytes + length(request)) FROM recordings r WHERE r.session = s.id), 0) AS bytes
     FROM keys k CROSS JOIN sessions s ON s.id = k.session
     WHERE s.state <> 'open' AND s.lease IS NULL ORDER BY k.session LIMIT ?";
/// Ended executions in open sessions.
const EXECUTIONS: &str = "SELECT s.id, r.execution, e.ended AS used, r.bytes + length(r.request) AS bytes
     FROM sessions s CROSS JOIN recordings r ON r.session = s.id JOIN executions e ON e.id = r.execution
     WHERE s.state = 'open' AND r.state = 'over' AND e.ended IS NOT NULL ORDER BY r.execution LIMIT ?";

impl Store {
    /// Forgets recordings of ended executions, oldest first: those past their age, and as many as needed to get under the size limit. Does
    /// a bounded part at once and returns how many it forgot.
    pub async fn trim_recordings(&self, keep: RecordingRetention, now: Timestamp) -> Result<usize, SweepError> {
        let (mut total, mut past) = self.trim_candidates(keep.at_once.max(MAX_CANDIDATES)).await?;
        past.sort_by_key(|past| past.used);
        let mut forgotten = 0;
        for past in past {
            let old = now.duration_since(past.used) > keep.age;
            if forgotten == usize::try_from(keep.at_once).unwrap_or(usize::MAX) || !(old || total > keep.bytes) {
                continue;
            }
            let (session, execution) = (past.session, past.execution);
            self.send(|reply| WriterCommand::Forget {
                session,
                execution,
                reply,
            })
            .await?;
            total = total.saturating_sub(past.bytes);
            forgotten += 1;
        }
        Ok(forgotten)
    }

    /// The total size of all recordings, and the oldest candidates.
    async fn trim_candidates(&self, most: u32) -> Result<(u64, Vec<TrimCandidate>), QueryError> {
        let reader = self.reader().await;
        let total: Option<i64> = query("SELECT coalesce(sum(bytes + length(request)), 0) FROM recordings")
            .fetch_scalar(&reader)
            .await?;
        let mut past = Vec::new();
        for sql in [SESSIONS, EXECUTIONS] {
            for row in &query(sql).bind(i64::from(most)).fetch_all(&reader).await? {
                past.push(candidate_from_row(row)?);
            }
        }
        let total = total.and_then(|total| u64::try_from(total).ok()).unwrap_or(0);
        Ok((total, past))
    }
}

fn candidate_from_row(row: &QueryRow) -> Result<TrimCandidate, QueryError> {
    const TABLE: &str = "recordings";
    let damaged = || QueryError::Row {
        table: TABLE,
        column: "execution",
    };
    let execution: Option<&str> = row.get("execution").map_err(|_| damaged())?;
    Ok(TrimCandidate {
        session: database::parse_column(row, "sessions", "id")?,
        execution: execution.map(|id| id.parse().map_err(|_| damaged())).transpose()?,
        used: database::parse_column(row, TABLE, "used")?,
        bytes: database::unsigned_column(row, TABLE, "bytes")?,
    })
}
