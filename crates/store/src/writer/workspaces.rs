//! Workspaces in a commit: their owners, names and sizes.

use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{ExecutionId, LeaseId, Principal, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::{CommandResult, CommitBatch};
use super::projection::execute_cached;
use super::row::text_at;
use crate::database::to_signed;
use crate::session::AdoptError;
use crate::workspace::NewWorkspace;

impl CommitBatch<'_> {
    /// Adopts a session in which nothing waits for a person.
    pub(super) fn enter_session(&mut self, session: SessionId, to: LeaseId) -> CommandResult<(), AdoptError> {
        let unfinished: Option<ExecutionId> = self
            .connection
            .prepare_cached(
                "SELECT e.id FROM executions e JOIN recordings r ON r.execution = e.id
                 WHERE e.session = ? AND e.ended IS NULL AND r.spoiled IS NULL
                    AND (r.state = 'waiting' OR r.state = 'interrupted' AND r.due IS NOT NULL) LIMIT 1",
            )?
            .query_row([session.to_string()], |row| text_at(row, 0))
            .optional()?;
        match (self.adopt_session(session, None, to)?, unfinished) {
            (Ok(()), Some(execution)) => {
                let left = self.release_session(session)?;
                Ok(left
                    .map_err(AdoptError::from)
                    .and(Err(AdoptError::Unfinished { session, execution })))
            }
            (adopted, _) => Ok(adopted),
        }
    }

    /// Releases a session to the process that uses its files next. Its stop requests are fulfilled and deleted.
    pub(super) fn park_session(&mut self, session: SessionId) -> CommandResult<()> {
        let released = self.release_session(session)?;
        if released.is_ok() {
            execute_cached(
                self.connection,
                "DELETE FROM stops WHERE session = ?",
                params![session.to_string()],
            )?;
        }
        Ok(released)
    }
}

/// The session with a workspace of this name.
pub(super) fn find_named(
    connection: &Connection,
    who: Principal,
    name: Option<&str>,
) -> Result<Option<SessionId>, rusqlite::Error> {
    let Some(name) = name else { return Ok(None) };
    connection
        .prepare_cached("SELECT session FROM workspaces WHERE principal = ? AND name = ?")?
        .query_row(params![who.to_string(), name], |row| text_at(row, 0))
        .optional()
}

/// Inserts the workspace row of a new session.
pub(super) fn insert_workspace(
    connection: &Connection,
    session: SessionId,
    who: Principal,
    keeping: &NewWorkspace,
    at: &str,
) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "INSERT INTO workspaces (session, principal, name, keep, bytes, files, taken) VALUES (?, ?, ?, ?, 0, 0, ?)",
        params![
            session.to_string(),
            who.to_string(),
            keeping.name,
            seconds(keeping.keep),
            at
        ],
    )
}

/// Notes that a process took the session now.
pub(super) fn note_taken(connection: &Connection, session: &str) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE workspaces SET taken = ? WHERE session = ?",
        params![Timestamp::now().to_string(), session],
    )
}

pub(super) fn note_usage(
    connection: &Connection,
    session: SessionId,
    bytes: u64,
    files: u64,
) -> Result<(), rusqlite::Error> {
    execute_cached(
        connection,
        "UPDATE workspaces SET bytes = ?, files = ? WHERE session = ?",
        params![to_signed(bytes), to_signed(files), session.to_string()],
    )
}

/// Deletes the workspace row of a closed session.
pub(super) fn delete_workspace(connection: &Connection, session: &str) -> Result<(), rusqlite::Error> {
    execute_cached(connection, "DELETE FROM workspaces WHERE session = ?", params![session])
}

/// The time in whole seconds, rounded up.
fn seconds(keep: Duration) -> i64 {
    let whole = keep.as_secs().saturating_add(u64::from(keep.subsec_nanos() > 0));
    i64::try_from(whole).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
