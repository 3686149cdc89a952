//! Workspaces: files that outlive their process. Which sessions keep some, for how long, and which process owns them.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{
    CleanText, Event, EventKind, ExecutionId, ExecutionStatus, LeaseId, Principal, RecordError, Recorder as _,
    ResourceUsage, SessionId, TruncationFlags,
};
use serde::Serialize;

use crate::database::{self, QueryError};
use crate::lease::LeaseHolder;
use crate::query::{QueryRow, query};
use crate::recording::to_nanoseconds;
use crate::session::{AdoptError, SELECT_SESSION, Session, session_from_row};
use crate::writer::WriterCommand;
use crate::{Lease, Store};

/// The most bytes of a lease's first line that are read.
const MAX_LINE_BYTES: u64 = 4096;

/// Whether the files of session `w`, last used as `s` says, have expired at `?1` (in nanoseconds `?2`) and no execution waits.
const EXPIRED: &str = "unixepoch(s.used) + w.keep <= ?1 AND NOT EXISTS (SELECT 1 FROM recordings r
    WHERE r.session = w.session AND r.state IN ('waiting', 'interrupted') AND r.due > ?2)";

/// The workspace that a new session will keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkspace {
    /// The principal's name for the session; `None` without one.
    pub name: Option<String>,
    /// How long the files are kept after the last use of the session.
    pub keep: Duration,
}

/// The workspace of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredWorkspace {
    /// The principal's name for the session; `None` without one.
    pub name: Option<String>,
    /// Size of the files in bytes at the last count.
    pub bytes: u64,
    /// Number of files and folders at the last count.
    pub files: u64,
    /// When the files expire if nobody uses the session.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub kept_until: Timestamp,
    /// When a process last took the session.
    #[serde(serialize_with = "ringfence_journal::fixed_time")]
    pub taken: Timestamp,
}

impl Store {
    /// A principal's session of this name, if it keeps a workspace.
    pub async fn session_named(&self, who: Principal, name: &str) -> Result<Option<Session>, QueryError> {
        let reader = self.reader().await;
        let row = query(format!(
            "{SELECT_SESSION} WHERE id = (SELECT session FROM workspaces WHERE principal = ? AND name = ?)"
        ))
        .bind(who.to_string())
        .bind(name.to_owned())
        .fetch_optional(&reader)
        .await?;
        row.as_ref().map(session_from_row).transpose()
    }

    /// How many sessions of a principal keep a workspace.
    pub async fn workspace_count(&self, who: Principal) -> Result<u64, QueryError> {
        let reader = self.reader().await;
        let row = query("SELECT count(*) AS workspaces FROM workspaces WHERE principal = ?")
            .bind(who.to_string())
            .fetch_one(&reader)
            .await?;
        database::unsigned_column(&row, "workspaces", "workspaces")
    }

    /// Sessions that no process owns and whose workspace has expired; a session that waits for people does not expire.
    pub async fn expired_workspaces(&self, now: Timestamp, limit: u32) -> Result<Vec<SessionId>, QueryError> {
        let reader = self.reader().await;
        let rows = query(format!(
            "SELECT w.session FROM workspaces w JOIN sessions s ON s.id = w.session
             WHERE s.lease IS NULL AND {EXPIRED} ORDER BY s.used LIMIT ?3"
        ))
        .bind(now.as_second())
        .bind(to_nanoseconds(now))
        .bind(i64::from(limit))
        .fetch_all(&reader)
        .await?;
        rows.iter()
            .map(|row| database::parse_column(row, "workspaces", "session"))
            .collect()
    }

    /// Whether the workspace of a session has expired, whichever process owns it; a session that waits for people does not expire.
    pub async fn is_workspace_expired(&self, id: SessionId, now: Timestamp) -> Result<bool, QueryError> {
        let reader = self.reader().await;
        let row = query(format!(
            "SELECT 1 FROM workspaces w JOIN sessions s ON s.id = w.session WHERE {EXPIRED} AND w.session = ?3"
        ))
        .bind(now.as_second())
        .bind(to_nanoseconds(now))
        .bind(id.to_string())
        .fetch_optional(&reader)
        .await?;
        Ok(row.is_some())
    }

    /// Whether a session keeps a workspace.
    pub async fn keeps_workspace(&self, id: SessionId) -> Result<bool, QueryError> {
        let reader = self.reader().await;
        let row = query("SELECT 1 FROM workspaces WHERE session = ?")
            .bind(id.to_string())
            .fetch_optional(&reader)
            .await?;
        Ok(row.is_some())
    }

    /// Adopts a session that no process owns and in which nothing waits for a person. Interrupted executions in it are ended as lost, even
    /// if they could be resumed.
    pub async fn enter_session(&self, lease: &Lease, session: SessionId) -> Result<(), AdoptError> {
        let to = self.note_lease(lease);
        self.send(|reply| WriterCommand::Enter { session, to, reply }).await?;
        Ok(self.end_unfinished(session, ExecutionStatus::Lost).await?)
    }

    /// Records the end of every execution in progress in a session of this process, because nothing else will.
    pub async fn end_unfinished(&self, session: SessionId, status: ExecutionStatus) -> Result<(), RecordError> {
        let which = self
            .unfinished_executions(session, UnfinishedFilter::All)
            .await
            .map_err(unreadable)?;
        self.end_executions(session, which, status).await
    }

    /// Ends the skills that were in progress in a session of a dead process: only their caller is run again.
    pub(crate) async fn end_called_skills(&self, session: SessionId, lease: LeaseId) -> Result<(), AdoptError> {
        let which = self
            .unfinished_executions(session, UnfinishedFilter::Called)
            .await
            .map_err(unreadable)?;
        if which.is_empty() {
            return Ok(());
        }
        self.take_over_session(session, lease).await?;
        Ok(self.end_executions(session, which, ExecutionStatus::Lost).await?)
    }

    /// Takes over the session of a dead process, to record its end.
    pub(crate) async fn take_over_session(&self, session: SessionId, lease: LeaseId) -> Result<(), AdoptError> {
        self.send(|reply| WriterCommand::Adopt {
            session,
            from: Some(lease),
            to: lease,
            reply,
        })
        .await
    }

    async fn end_executions(
        &self,
        session: SessionId,
        which: Vec<ExecutionId>,
        status: ExecutionStatus,
    ) -> Result<(), RecordError> {
        let policy = self.session(session).await.map_err(unreadable)?;
        let policy = policy.map_or_else(CleanText::default, |row| CleanText::clean(&row.policy_digest));
        for execution in which {
            let kind = EventKind::ExecutionEnded {
                status,
                exit_code: None,
                error: None,
                usage: ResourceUsage::default(),
                policy: policy.clone(),
                truncated: TruncationFlags::default(),
                output: None,
            };
            self.record(Event::from_host(session, Some(execution), kind)).await?;
        }
        Ok(())
    }

    /// The sessions that keep a workspace.
    pub async fn sessions_with_workspace(&self) -> Result<HashSet<SessionId>, QueryError> {
        let reader = self.reader().await;
        let rows = query("SELECT session FROM workspaces").fetch_all(&reader).await?;
        rows.iter()
            .map(|row| database::parse_column(row, "workspaces", "session"))
            .collect()
    }

    /// Releases a session without executions in progress to the process that uses its files next.
    pub async fn park_session(&self, session: SessionId) -> Result<(), RecordError> {
        self.send(|reply| WriterCommand::Park { session, reply }).await
    }

    /// Notes the size of a session's workspace.
    pub async fn note_workspace(&self, session: SessionId, bytes: u64, files: u64) -> Result<(), RecordError> {
        self.send(|reply| WriterCommand::NoteWorkspace {
            session,
            bytes,
            files,
            reply,
        })
        .await
    }

    /// The executions of a session that have not ended.
    async fn unfinished_executions(
        &self,
        id: SessionId,
        which: UnfinishedFilter,
    ) -> Result<Vec<ExecutionId>, QueryError> {
        let reader = self.reader().await;
        let sql = match which {
            UnfinishedFilter::All => "SELECT id FROM executions WHERE session = ? AND ended IS NULL ORDER BY id",
            UnfinishedFilter::Called => {
                "SELECT id FROM executions WHERE session = ? AND ended IS NULL AND parent IS NOT NULL ORDER BY id"
            }
        };
        let rows = query(sql).bind(id.to_string()).fetch_all(&reader).await?;
        rows.iter()
            .map(|row| database::parse_column(row, "executions", "id"))
            .collect()
    }

    /// The holder of a lease; `None` if its file cannot be read.
    pub fn lease_holder(&self, lease: LeaseId) -> Option<LeaseHolder> {
        let file = fs::File::open(self.home.run_folder().join(format!("{lease}.lock"))).ok()?;
        let mut line = Vec::new();
        BufReader::new(file.take(MAX_LINE_BYTES))
            .read_until(b'\n', &mut line)
            .ok()?;
        serde_json::from_slice(&line).ok()
    }
}

/// Selects executions that have not ended.
#[derive(Debug, Clone, Copy)]
enum UnfinishedFilter {
    All,
    /// Only skills that another execution called.
    Called,
}

/// An event cannot be written because the store cannot be read.
fn unreadable(error: QueryError) -> RecordError {
    RecordError::Write {
        source: Arc::new(error),
    }
}

/// Reads the workspace columns of a session's row; `None` without a workspace.
pub(crate) fn workspace_from_row(row: &QueryRow, used: Timestamp) -> Result<Option<StoredWorkspace>, QueryError> {
    const TABLE: &str = "workspaces";
    let damaged = |column| QueryError::Row { table: TABLE, column };
    let keep: Option<i64> = row.get("keep").map_err(|_| damaged("keep"))?;
    let Some(keep) = keep else { return Ok(None) };
    let until = jiff::SignedDuration::from_secs(keep);
    Ok(Some(StoredWorkspace {
        name: row.get("name").map_err(|_| damaged("name"))?,
        bytes: database::unsigned_column(row, TABLE, "bytes")?,
        files: database::unsigned_column(row, TABLE, "files")?,
        kept_until: used.saturating_add(until).map_err(|_| damaged("keep"))?,
        taken: database::parse_column(row, TABLE, "taken")?,
    }))
}
