//! Workspaces: files that outlive their process. Which sessions keep some, for how long, and which process owns them.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{
    Event, ExecutionId, Kind, LeaseId, Principal, RecordError, Recorder as _, SessionId, Status, Text, Truncated, Usage,
};
use serde::Serialize;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::database::{self, ReadError};
use crate::lease::Holder;
use crate::recording::nanoseconds;
use crate::session::{AdoptError, SESSION, Session, session};
use crate::writer::Command;
use crate::{Lease, Store};

/// The most bytes of a lease's first line that are read.
const LINE: u64 = 4096;

/// Whether the files of session `w`, last used as `s` says, have expired at `?1` (in nanoseconds `?2`) and no execution waits.
const OVER: &str = "unixepoch(s.used) + w.keep <= ?1 AND NOT EXISTS (SELECT 1 FROM recordings r
    WHERE r.session = w.session AND r.state IN ('waiting', 'interrupted') AND r.due > ?2)";

/// The workspace that a new session will keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// The principal's name for the session; `None` without one.
    pub name: Option<String>,
    /// How long the files are kept after the last use of the session.
    pub keep: Duration,
}

/// The workspace of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// The principal's name for the session; `None` without one.
    pub name: Option<String>,
    /// Size of the files in bytes at the last count.
    pub bytes: u64,
    /// Number of files and folders at the last count.
    pub files: u64,
    /// When the files expire if nobody uses the session.
    pub kept_until: Timestamp,
    /// When a process last took the session.
    pub taken: Timestamp,
}

impl Store {
    /// A principal's session of this name, if it keeps a workspace.
    pub async fn session_named(&self, who: Principal, name: &str) -> Result<Option<Session>, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "{SESSION} WHERE id = (SELECT session FROM workspaces WHERE principal = ? AND name = ?)"
        )))
        .bind(who.to_string())
        .bind(name)
        .fetch_optional(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        row.as_ref().map(session).transpose()
    }

    /// How many sessions of a principal keep a workspace.
    pub async fn workspace_count(&self, who: Principal) -> Result<u64, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT count(*) AS workspaces FROM workspaces WHERE principal = ?")
            .bind(who.to_string())
            .fetch_one(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        database::number(&row, "workspaces", "workspaces")
    }

    /// Sessions that no process owns and whose workspace has expired; a session that waits for people does not expire.
    pub async fn workspaces_over(&self, now: Timestamp, limit: u32) -> Result<Vec<SessionId>, ReadError> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT w.session FROM workspaces w JOIN sessions s ON s.id = w.session
             WHERE s.lease IS NULL AND {OVER} ORDER BY s.used LIMIT ?3"
        )))
        .bind(now.as_second())
        .bind(nanoseconds(now))
        .bind(i64::from(limit))
        .fetch_all(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        rows.iter()
            .map(|row| database::parsed(row, "workspaces", "session"))
            .collect()
    }

    /// Whether the workspace of a session has expired, whichever process owns it; a session that waits for people does not expire.
    pub async fn workspace_is_over(&self, id: SessionId, now: Timestamp) -> Result<bool, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT 1 FROM workspaces w JOIN sessions s ON s.id = w.session WHERE {OVER} AND w.session = ?3"
        )))
        .bind(now.as_second())
        .bind(nanoseconds(now))
        .bind(id.to_string())
        .fetch_optional(reader.connection()?)
        .await
        .map_err(ReadError::Database)?;
        Ok(row.is_some())
    }

    /// Whether a session keeps a workspace.
    pub async fn keeps(&self, id: SessionId) -> Result<bool, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT 1 FROM workspaces WHERE session = ?")
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        Ok(row.is_some())
    }

    /// Adopts a session that no process owns and in which nothing waits for a person. Interrupted executions in it are ended as lost, even
    /// if they could be resumed.
    pub async fn enter_session(&self, lease: &Lease, session: SessionId) -> Result<(), AdoptError> {
        let to = self.under(lease);
        self.send(|reply| Command::Enter { session, to, reply }).await?;
        Ok(self.end_unfinished(session, Status::Lost).await?)
    }

    /// Records the end of every execution in progress in a session of this process, because nothing else will.
    pub async fn end_unfinished(&self, session: SessionId, status: Status) -> Result<(), RecordError> {
        let which = self.unfinished(session, Unfinished::All).await.map_err(unread)?;
        self.end_each(session, which, status).await
    }

    /// Ends the skills that were in progress in a session of a dead process: only their caller is run again.
    pub(crate) async fn end_called(&self, session: SessionId, lease: LeaseId) -> Result<(), AdoptError> {
        let which = self.unfinished(session, Unfinished::Called).await.map_err(unread)?;
        if which.is_empty() {
            return Ok(());
        }
        self.take_from(session, lease).await?;
        Ok(self.end_each(session, which, Status::Lost).await?)
    }

    /// Takes over the session of a dead process, to record its end.
    pub(crate) async fn take_from(&self, session: SessionId, lease: LeaseId) -> Result<(), AdoptError> {
        self.send(|reply| Command::Adopt {
            session,
            from: Some(lease),
            to: lease,
            reply,
        })
        .await
    }

    async fn end_each(&self, session: SessionId, which: Vec<ExecutionId>, status: Status) -> Result<(), RecordError> {
        let policy = self.session(session).await.map_err(unread)?;
        let policy = policy.map_or_else(Text::default, |row| Text::clean(&row.policy_digest));
        for execution in which {
            let kind = Kind::ExecutionEnded {
                status,
                exit_code: None,
                error: None,
                usage: Usage::default(),
                policy: policy.clone(),
                truncated: Truncated::default(),
                output: None,
            };
            self.record(Event::host(session, Some(execution), kind)).await?;
        }
        Ok(())
    }

    /// The sessions that keep a workspace.
    pub async fn kept_sessions(&self) -> Result<HashSet<SessionId>, ReadError> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT session FROM workspaces")
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter()
            .map(|row| database::parsed(row, "workspaces", "session"))
            .collect()
    }

    /// Releases a session without executions in progress to the process that uses its files next.
    pub async fn park_session(&self, session: SessionId) -> Result<(), RecordError> {
        self.send(|reply| Command::Park { session, reply }).await
    }

    /// Notes the size of a session's workspace.
    pub async fn note_workspace(&self, session: SessionId, bytes: u64, files: u64) -> Result<(), RecordError> {
        self.send(|reply| Command::Counted {
            session,
            bytes,
            files,
            reply,
        })
        .await
    }

    /// The executions of a session that have not ended.
    async fn unfinished(&self, id: SessionId, which: Unfinished) -> Result<Vec<ExecutionId>, ReadError> {
        let mut reader = self.reader().await?;
        let sql = match which {
            Unfinished::All => "SELECT id FROM executions WHERE session = ? AND ended IS NULL ORDER BY id",
            Unfinished::Called => {
                "SELECT id FROM executions WHERE session = ? AND ended IS NULL AND parent IS NOT NULL ORDER BY id"
            }
        };
        let rows = sqlx::query(sql)
            .bind(id.to_string())
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter()
            .map(|row| database::parsed(row, "executions", "id"))
            .collect()
    }

    /// The holder of a lease; `None` if its file cannot be read.
    pub fn holder(&self, lease: LeaseId) -> Option<Holder> {
        let file = fs::File::open(self.home.run().join(format!("{lease}.lock"))).ok()?;
        let mut line = Vec::new();
        BufReader::new(file.take(LINE)).read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}

/// Selects executions that have not ended.
#[derive(Debug, Clone, Copy)]
enum Unfinished {
    All,
    /// Only skills that another execution called.
    Called,
}

/// An event cannot be written because the store cannot be read.
fn unread(error: ReadError) -> RecordError {
    RecordError::Write {
        source: Arc::new(error),
    }
}

/// Reads the workspace columns of a session's row; `None` without a workspace.
pub(crate) fn workspace(row: &SqliteRow, used: Timestamp) -> Result<Option<Workspace>, ReadError> {
    const TABLE: &str = "workspaces";
    let damaged = |column| ReadError::Row { table: TABLE, column };
    let keep: Option<i64> = row.try_get("keep").map_err(|_| damaged("keep"))?;
    let Some(keep) = keep else { return Ok(None) };
    let until = jiff::SignedDuration::from_secs(keep);
    Ok(Some(Workspace {
        name: row.try_get("name").map_err(|_| damaged("name"))?,
        bytes: database::number(row, TABLE, "bytes")?,
        files: database::number(row, TABLE, "files")?,
        kept_until: used.saturating_add(until).map_err(|_| damaged("keep"))?,
        taken: database::parsed(row, TABLE, "taken")?,
    }))
}
