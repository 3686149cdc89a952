//! Files that outlive their process: which sessions keep some, for how long, and who has them.

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

/// The longest first line of a lease that is read.
const LINE: u64 = 4096;

/// Whether the files of session `w`, last used as `s` says, are past their time `?1` (in nanoseconds `?2`) with nobody waited for.
const OVER: &str = "unixepoch(s.used) + w.keep <= ?1 AND NOT EXISTS (SELECT 1 FROM recordings r
    WHERE r.session = w.session AND r.state IN ('waiting', 'interrupted') AND r.due > ?2)";

/// Files that a new session will keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// What its principal calls the session.
    pub name: Option<String>,
    /// For how long they are kept after the session was last used.
    pub keep: Duration,
}

/// Files that a session keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workspace {
    /// What its principal calls the session.
    pub name: Option<String>,
    /// Bytes that were last counted.
    pub bytes: u64,
    /// Files and folders that were last counted.
    pub files: u64,
    /// Until when they are kept if nobody uses the session.
    pub kept_until: Timestamp,
    /// When a process last took the session.
    pub taken: Timestamp,
}

impl Store {
    /// A principal's session of this name, if it keeps files.
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

    /// How many sessions of a principal keep files.
    pub async fn workspace_count(&self, who: Principal) -> Result<u64, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT count(*) AS workspaces FROM workspaces WHERE principal = ?")
            .bind(who.to_string())
            .fetch_one(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        database::number(&row, "workspaces", "workspaces")
    }

    /// Sessions that no process has and whose files are past their time; one that waits for people is not.
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

    /// Whether the files of a session are past their time, whoever has it; those of one that waits for people are not.
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

    /// Whether a session keeps files.
    pub async fn keeps(&self, id: SessionId) -> Result<bool, ReadError> {
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT 1 FROM workspaces WHERE session = ?")
            .bind(id.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        Ok(row.is_some())
    }

    /// Goes on with a session that no process has and in which nothing waits for a person. What was interrupted in it, and could
    /// have been gone on with, is given up.
    pub async fn enter_session(&self, lease: &Lease, session: SessionId) -> Result<(), AdoptError> {
        let to = self.under(lease);
        self.send(|reply| Command::Enter { session, to, reply }).await?;
        Ok(self.end_unfinished(session, Status::Lost).await?)
    }

    /// Writes the end of all that is under way in a session of this process, and that nobody sees end.
    pub async fn end_unfinished(&self, session: SessionId, status: Status) -> Result<(), RecordError> {
        let which = self.unfinished(session, Unfinished::All).await.map_err(unread)?;
        self.end_each(session, which, status).await
    }

    /// Writes the end of the skills that were under way in a session of a dead process: nobody runs them again, only what called them.
    pub(crate) async fn end_called(&self, session: SessionId, lease: LeaseId) -> Result<(), AdoptError> {
        let which = self.unfinished(session, Unfinished::Called).await.map_err(unread)?;
        if which.is_empty() {
            return Ok(());
        }
        self.take_from(session, lease).await?;
        Ok(self.end_each(session, which, Status::Lost).await?)
    }

    /// Takes a session from a dead process, to write in it what became of it.
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

    /// The sessions that keep files.
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

    /// Leaves a session, in which nothing is under way any more, to whoever uses its files next.
    pub async fn park_session(&self, session: SessionId) -> Result<(), RecordError> {
        self.send(|reply| Command::Park { session, reply }).await
    }

    /// Notes how much a session's files are.
    pub async fn note_workspace(&self, session: SessionId, bytes: u64, files: u64) -> Result<(), RecordError> {
        self.send(|reply| Command::Counted {
            session,
            bytes,
            files,
            reply,
        })
        .await
    }

    /// Executions of a session that are not over.
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

    /// Who holds a lease, if its file can be read.
    pub fn holder(&self, lease: LeaseId) -> Option<Holder> {
        let file = fs::File::open(self.home.run().join(format!("{lease}.lock"))).ok()?;
        let mut line = Vec::new();
        BufReader::new(file.take(LINE)).read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}

/// Which executions that are not over.
#[derive(Debug, Clone, Copy)]
enum Unfinished {
    All,
    /// Those that another called as a skill.
    Called,
}

/// What is to be written cannot be told.
fn unread(error: ReadError) -> RecordError {
    RecordError::Write {
        source: Arc::new(error),
    }
}

/// The part of a session's row that is about its files.
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
