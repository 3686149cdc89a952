//! Workspaces in a commit: their owners, names and sizes.

use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{ExecutionId, LeaseId, Principal, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::{Batch, Step};
use super::project::run;
use super::row::parsed;
use crate::database::signed;
use crate::session::AdoptError;
use crate::workspace::Keeping;

impl Batch<'_> {
    /// Adopts a session in which nothing waits for a person.
    pub(super) fn enter(&mut self, session: SessionId, to: LeaseId) -> Step<(), AdoptError> {
        let unfinished: Option<ExecutionId> = self
            .connection
            .prepare_cached(
                "SELECT e.id FROM executions e JOIN recordings r ON r.execution = e.id
                 WHERE e.session = ? AND e.ended IS NULL AND r.spoiled IS NULL
                    AND (r.state = 'waiting' OR r.state = 'interrupted' AND r.due IS NOT NULL) LIMIT 1",
            )?
            .query_row([session.to_string()], |row| parsed(row, 0))
            .optional()?;
        match (self.adopt(session, None, to)?, unfinished) {
            (Ok(()), Some(execution)) => {
                let left = self.release(session)?;
                Ok(left
                    .map_err(AdoptError::from)
                    .and(Err(AdoptError::Unfinished { session, execution })))
            }
            (adopted, _) => Ok(adopted),
        }
    }

    /// Releases a session to the process that uses its files next. Its stop requests are fulfilled and deleted.
    pub(super) fn park(&mut self, session: SessionId) -> Step<()> {
        let released = self.release(session)?;
        if released.is_ok() {
            run(
                self.connection,
                "DELETE FROM stops WHERE session = ?",
                params![session.to_string()],
            )?;
        }
        Ok(released)
    }
}

/// The session with a workspace of this name.
pub(super) fn named(
    connection: &Connection,
    who: Principal,
    name: Option<&str>,
) -> Result<Option<SessionId>, rusqlite::Error> {
    let Some(name) = name else { return Ok(None) };
    connection
        .prepare_cached("SELECT session FROM workspaces WHERE principal = ? AND name = ?")?
        .query_row(params![who.to_string(), name], |row| parsed(row, 0))
        .optional()
}

/// Inserts the workspace row of a new session.
pub(super) fn begin(
    connection: &Connection,
    (session, who): (SessionId, Principal),
    keeping: &Keeping,
    at: &str,
) -> Result<(), rusqlite::Error> {
    run(
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
pub(super) fn taken(connection: &Connection, session: &str) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE workspaces SET taken = ? WHERE session = ?",
        params![Timestamp::now().to_string(), session],
    )
}

pub(super) fn counted(
    connection: &Connection,
    session: SessionId,
    bytes: u64,
    files: u64,
) -> Result<(), rusqlite::Error> {
    run(
        connection,
        "UPDATE workspaces SET bytes = ?, files = ? WHERE session = ?",
        params![signed(bytes), signed(files), session.to_string()],
    )
}

/// Deletes the workspace row of a closed session.
pub(super) fn over(connection: &Connection, session: &str) -> Result<(), rusqlite::Error> {
    run(connection, "DELETE FROM workspaces WHERE session = ?", params![session])
}

/// The time in whole seconds, rounded up.
fn seconds(keep: Duration) -> i64 {
    let whole = keep.as_secs().saturating_add(u64::from(keep.subsec_nanos() > 0));
    i64::try_from(whole).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
