//! Recordings in a commit: their status, entries and keys.

use jiff::Timestamp;
use ringfence_journal::{Event, ExecutionId, LeaseId, RecordError, RecordPosition, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::batch::{CommandResult, CommitBatch};
use super::chain::{OwnedChain, sealed_bytes};
use super::command::{RecordingChange, RecordingError};
use super::projection::execute_cached;
use super::row::{optional_text_at, text_at};
use super::sealing::{NewSessionKey, SealedChange, SealedPiece};
use crate::database::SqliteErrorClass;
use crate::lease::{FormerOwner, OwnerEnd};
use crate::recording::{NewRecording, RECORDED_BYTES, to_nanoseconds};
use crate::session::AdoptError;

const INSERT_PIECE: &str = "INSERT INTO entries (execution, n, total, sealed) VALUES (?, ?, ?, ?)";
/// Ends a recording and notes its final size.
const SET_OVER: &str = "UPDATE recordings AS r SET state = 'over', wake = NULL, due = NULL,";

impl<'a> CommitBatch<'a> {
    /// Writes an event and the change that accompanies it: both or neither.
    pub(super) fn record_with(
        &mut self,
        event: &Event,
        change: &RecordingChange,
        sealed: Option<Result<SealedChange, RecordError>>,
    ) -> CommandResult<RecordPosition> {
        let session = event.session;
        let sealed = match sealed {
            Some(Ok(sealed)) if sealed.session == session && event.execution == Some(change.execution()) => sealed,
            Some(Ok(sealed)) => {
                let other = sealed.session;
                return Ok(Err(RecordingError::Elsewhere { session, other }.into()));
            }
            Some(Err(error)) => return Ok(Err(error)),
            None => return Ok(Err(RecordError::Ended)),
        };
        // Answers are recorded even if the rest cannot be written.
        if let Err(error) = self.record_unheard_answers(event)? {
            return Ok(Err(error));
        }
        let Some(chain) = self.chain(session) else {
            return Ok(Err(self.missing_session_error(session)?));
        };
        self.in_savepoint(sealed, |batch, sealed| {
            if let Err(error) = write_change(batch.connection, change, sealed)? {
                return Ok(Err(error));
            }
            batch.append(chain, event)
        })
    }

    /// Writes a change that no event accompanies.
    pub(super) fn apply_change(
        &mut self,
        change: &RecordingChange,
        sealed: Option<Result<SealedChange, RecordError>>,
    ) -> CommandResult<()> {
        let sealed = match self.require_owned(sealed)? {
            Ok(sealed) => sealed,
            Err(error) => return Ok(Err(error)),
        };
        self.in_savepoint(sealed, |batch, sealed| write_change(batch.connection, change, sealed))
    }

    /// Stores one part of a session's aliases.
    pub(super) fn keep_aliases(&mut self, sealed: Option<Result<SealedChange, RecordError>>) -> CommandResult<()> {
        let sealed = match self.require_owned(sealed)? {
            Ok(sealed) => sealed,
            Err(error) => return Ok(Err(error)),
        };
        self.in_savepoint(sealed, |batch, sealed| {
            let row = params![sealed.session.to_string(), sealed.part, sealed.body];
            let sql = "INSERT INTO aliases (session, n, sealed) VALUES (?, ?, ?)";
            execute_cached(batch.connection, sql, row).map(Ok)
        })
    }

    /// Checks in the database that the session of a change without an event still belongs to this process.
    fn require_owned(&mut self, sealed: Option<Result<SealedChange, RecordError>>) -> CommandResult<SealedChange> {
        let sealed = match sealed {
            Some(Ok(sealed)) => sealed,
            Some(Err(error)) => return Ok(Err(error)),
            None => return Ok(Err(RecordError::Ended)),
        };
        let session = sealed.session;
        let Some(chain) = self.chain(session) else {
            return Ok(Err(self.missing_session_error(session)?));
        };
        let ours = self
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND lease = ?")?
            .exists([session.to_string(), chain.lease.to_string()])?;
        Ok(if ours {
            Ok(sealed)
        } else {
            Err(RecordError::NotOwned { session })
        })
    }

    /// Runs a command in a savepoint: all of it is written or nothing.
    fn in_savepoint<T>(
        &mut self,
        sealed: SealedChange,
        act: impl FnOnce(&mut CommitBatch<'a>, &SealedChange) -> CommandResult<T>,
    ) -> CommandResult<T> {
        let piece = sealed.piece.as_ref().map(|piece| piece.execution);
        if let Some(execution) = piece
            && self.holes.contains(&execution)
        {
            return Ok(Err(RecordingError::Hole { execution }.into()));
        }
        self.connection.execute_batch("SAVEPOINT kept")?;
        let keyed = match &sealed.key {
            // The first change of a commit stores the key for all.
            Some(key)
                if !self
                    .effects
                    .kept
                    .iter()
                    .any(|kept| kept.session == sealed.session && kept.key.is_some()) =>
            {
                keep_key(self.connection, sealed.session, key)?
            }
            _ => Ok(()),
        };
        let result = match keyed {
            Ok(()) => act(self, &sealed)?,
            Err(error) => Err(error),
        };
        if result.is_ok() {
            if let Some(piece) = &sealed.piece
                && let Some(chain) = self.chain(sealed.session)
            {
                let chain = chain.with_sealed(piece.sealed.len());
                self.effects.changed.insert(sealed.session, Some(chain));
            }
            self.effects.kept.push(sealed);
        } else {
            self.holes.extend(piece);
            self.connection.execute_batch("ROLLBACK TO kept")?;
        }
        self.connection.execute_batch("RELEASE kept")?;
        Ok(result)
    }

    /// Deletes the recording of one execution, or all recordings of a session.
    pub(super) fn forget_recordings(
        &mut self,
        session: SessionId,
        execution: Option<ExecutionId>,
    ) -> CommandResult<()> {
        match execution {
            Some(execution) => self.forget_execution(session, execution),
            None => forget_session(self.connection, session),
        }
    }

    /// As [`forget_execution`]; the deleted bytes no longer count for the session.
    fn forget_execution(&mut self, session: SessionId, execution: ExecutionId) -> CommandResult<()> {
        let forgotten = forget_execution(self.connection, execution)?;
        if forgotten.is_ok()
            && let Some(chain) = self.chain(session)
        {
            let sealed = sealed_bytes(self.connection, session)?;
            self.effects
                .changed
                .insert(session, Some(OwnedChain { sealed, ..chain }));
        }
        Ok(forgotten)
    }

    /// Releases a session whose executions can be run again, and drops it if this process owns it.
    pub(super) fn leave_unfinished(&mut self, session: SessionId, from: FormerOwner) -> Result<bool, rusqlite::Error> {
        let is_spared = leave_unfinished(self.connection, session, from)?;
        if is_spared && self.chain(session).is_some_and(|chain| chain.lease == from.lease) {
            self.effects.changed.insert(session, None);
        }
        Ok(is_spared)
    }

    pub(super) fn resume_execution(&mut self, execution: ExecutionId, to: LeaseId) -> CommandResult<(), AdoptError> {
        let (session, owner) = match resumable(self.connection, execution, to)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        match self.adopt_session(session, owner, to)? {
            Ok(()) => resume_execution(self.connection, execution).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Writes a change. The caller has checked that this process owns the session.
fn write_change(connection: &Connection, change: &RecordingChange, sealed: &SealedChange) -> CommandResult<()> {
    let body = sealed.body.as_deref().unwrap_or_default();
    if let Some(piece) = &sealed.piece
        && let Err(error) = insert_piece(connection, piece)
    {
        let hole = RecordingError::Hole {
            execution: piece.execution,
        };
        return unless_duplicate(error, hole);
    }
    match change {
        RecordingChange::Begin(recording) => begin_recording(connection, recording, body),
        RecordingChange::Keep { .. } => Ok(Ok(())),
        RecordingChange::Finish { execution, .. } => {
            end_execution(connection, *execution)?;
            let sql = "UPDATE recordings SET outcome = ? WHERE execution = ?";
            execute_cached(connection, sql, params![body, execution.to_string()]).map(Ok)
        }
        RecordingChange::MarkUnrepeatable { execution, why } => {
            let sql = "UPDATE recordings SET spoiled = coalesce(spoiled, ?) WHERE execution = ?";
            execute_cached(connection, sql, params![why, execution.to_string()]).map(Ok)
        }
        RecordingChange::Suspend { execution, wake, .. } => suspend_execution(connection, *execution, *wake),
        RecordingChange::Ask { question, .. } => super::approvals::insert_question(connection, question, body),
    }
}

pub(super) fn insert_piece(connection: &Connection, piece: &SealedPiece) -> Result<(), rusqlite::Error> {
    let SealedPiece {
        execution,
        n,
        total,
        sealed,
        ..
    } = piece;
    execute_cached(
        connection,
        INSERT_PIECE,
        params![execution.to_string(), n, total, sealed],
    )
}

/// Stores a session's key; a different stored key means that another process owns the session.
fn keep_key(connection: &Connection, session: SessionId, key: &NewSessionKey) -> CommandResult<()> {
    let sql = "INSERT INTO keys (session, sealed) VALUES (?, ?)";
    match execute_cached(connection, sql, params![session.to_string(), &*key.wrapped]) {
        Ok(()) => Ok(Ok(())),
        Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
            Ok(Err(RecordError::NotOwned { session }))
        }
        Err(error) => Err(error),
    }
}

fn unless_duplicate<T>(error: rusqlite::Error, otherwise: RecordingError) -> CommandResult<T> {
    match SqliteErrorClass::from_rusqlite(&error) {
        SqliteErrorClass::ConstraintViolated => Ok(Err(otherwise.into())),
        SqliteErrorClass::Full | SqliteErrorClass::Locked | SqliteErrorClass::Damaged | SqliteErrorClass::Other => {
            Err(error)
        }
    }
}

fn begin_recording(connection: &Connection, recording: &NewRecording, request: &[u8]) -> CommandResult<()> {
    let execution = recording.execution;
    let sql = "INSERT INTO recordings (execution, session, state, stays, bytes, request, since) VALUES (?1, ?2, 'running', ?3, 0, ?4,
            (SELECT max(seq) FROM events WHERE session = ?2))";
    let values = params![
        execution.to_string(),
        recording.session.to_string(),
        recording.stays,
        request
    ];
    match execute_cached(connection, sql, values) {
        Ok(()) => Ok(Ok(())),
        Err(error) => unless_duplicate(error, RecordingError::Recorded { execution }),
    }
}

fn suspend_execution(connection: &Connection, execution: ExecutionId, wake: Option<Timestamp>) -> CommandResult<()> {
    let wake = wake.map(to_nanoseconds);
    let due = earliest(wake, next_question_time(connection, execution)?);
    let changed = connection
        .prepare_cached(
            "UPDATE recordings SET state = 'waiting', wake = ?, due = ? WHERE execution = ? AND state = 'running'",
        )?
        .execute(params![wake, due, execution.to_string()])?;
    match changed {
        0 => Ok(Err(RecordingError::Over { execution }.into())),
        _ => Ok(Ok(())),
    }
}

fn earliest(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// When an execution resumes because of a question: at once if it has an answer that the execution has not heard.
fn next_question_time(connection: &Connection, execution: ExecutionId) -> Result<Option<i64>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT min(CASE state WHEN 'pending' THEN expires ELSE 0 END) FROM approvals WHERE execution = ? AND noted = 0",
        )?
        .query_row([execution.to_string()], |row| row.get(0))
}

/// Whether a person has answered a question of an execution.
fn has_unheard_answer(connection: &Connection, execution: ExecutionId) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT 1 FROM approvals WHERE execution = ? AND state IN ('approved', 'denied')")?
        .exists([execution.to_string()])
}

/// Ends a recording: nobody resumes the execution, and its questions are withdrawn.
pub(super) fn end_execution(connection: &Connection, execution: ExecutionId) -> Result<(), rusqlite::Error> {
    let name = execution.to_string();
    let sql = format!("{SET_OVER} bytes = {RECORDED_BYTES} WHERE execution = ? AND state <> 'over'");
    execute_cached(connection, &sql, params![name])?;
    execute_cached(connection, "DELETE FROM answers WHERE execution = ?", params![name])?;
    super::approvals::withdraw_questions(connection, "execution", &name)
}

/// As [`end_execution`], for all executions of a session; deletes its aliases too.
pub(super) fn end_session(connection: &Connection, session: &str) -> Result<(), rusqlite::Error> {
    execute_cached(connection, "DELETE FROM aliases WHERE session = ?", params![session])?;
    let sql = format!("{SET_OVER} bytes = {RECORDED_BYTES} WHERE session = ? AND state <> 'over'");
    execute_cached(connection, &sql, params![session])?;
    execute_cached(
        connection,
        "DELETE FROM answers WHERE execution IN (SELECT execution FROM approvals WHERE session = ?)",
        params![session],
    )?;
    super::approvals::withdraw_questions(connection, "session", session)
}

/// Whether an execution can be resumed under this lease; returns its session and the current owner.
fn resumable(
    connection: &Connection,
    execution: ExecutionId,
    to: LeaseId,
) -> CommandResult<(SessionId, Option<LeaseId>), AdoptError> {
    let row = connection
        .prepare_cached(
            "SELECT r.session, r.state, r.spoiled, s.state, s.lease FROM recordings r
             JOIN sessions s ON s.id = r.session WHERE r.execution = ?",
        )?
        .query_row([execution.to_string()], |row| {
            Ok((
                text_at::<SessionId>(row, 0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<String>>(2)?,
                row.get::<_, String>(3)?,
                optional_text_at::<LeaseId>(row, 4)?,
            ))
        })
        .optional()?;
    let Some((session, state, spoiled, stands, owner)) = row else {
        return Ok(Err(AdoptError::NoRecording { execution }));
    };
    if stands != "open" || state == "over" {
        return Ok(Err(AdoptError::Closed { session }));
    }
    if state == "running" || owner.is_some_and(|owner| owner != to) {
        return Ok(Err(AdoptError::Owned { session }));
    }
    if let Some(why) = spoiled {
        return Ok(Err(AdoptError::Unrepeatable { execution, why }));
    }
    Ok(Ok((session, owner)))
}

/// Marks an execution as running.
fn resume_execution(connection: &Connection, execution: ExecutionId) -> Result<(), rusqlite::Error> {
    let sql = "UPDATE recordings SET state = 'running', wake = NULL, due = NULL WHERE execution = ?";
    execute_cached(connection, sql, params![execution.to_string()])
}

/// Whether all executions in progress in a session of a lease can be run again. If so, the session is released.
fn leave_unfinished(connection: &Connection, session: SessionId, from: FormerOwner) -> Result<bool, rusqlite::Error> {
    let name = session.to_string();
    // A session with a stop request must end. What ran when its owner ended in good order has failed, unless it waits for somebody.
    let (unfinished, repeatable): (i64, i64) = connection
        .prepare_cached(
            "SELECT count(*), count(r.execution) FROM executions e LEFT JOIN recordings r
                ON r.execution = e.id AND r.state <> 'over' AND r.spoiled IS NULL AND (?3 OR r.state <> 'running'
                    OR EXISTS (SELECT 1 FROM approvals a WHERE a.execution = e.id AND a.noted = 0))
             WHERE e.session = ?1 AND e.ended IS NULL AND NOT EXISTS (SELECT 1 FROM stops WHERE session = ?1)
                AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND state = 'open' AND lease = ?2)",
        )?
        .query_row(
            params![name, from.lease.to_string(), from.end == OwnerEnd::Died],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    if unfinished == 0 || unfinished != repeatable {
        return Ok(false);
    }
    let mut under_way =
        connection.prepare_cached("SELECT execution FROM recordings WHERE session = ? AND state = 'running'")?;
    let running: Vec<ExecutionId> = under_way
        .query_map([&name], |row| text_at(row, 0))?
        .collect::<Result<_, _>>()?;
    for execution in running {
        // An execution that waits for a question is due when that is settled, as if it were suspended; one whose question is already
        // answered is due at once, because nobody may be left to request it.
        let due = if has_unheard_answer(connection, execution)? {
            Some(0)
        } else {
            next_question_time(connection, execution)?
        };
        let sql = "UPDATE recordings SET state = 'interrupted', due = ? WHERE execution = ?";
        execute_cached(connection, sql, params![due, execution.to_string()])?;
    }
    execute_cached(
        connection,
        "UPDATE sessions SET lease = NULL WHERE id = ?",
        params![name],
    )?;
    Ok(true)
}

/// Deletes the key of a closed session and everything that it sealed.
pub(super) fn forget_session(connection: &Connection, session: SessionId) -> CommandResult<()> {
    let name = session.to_string();
    let open = connection
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND state = 'open'")?
        .exists([&name])?;
    if open {
        return Ok(Err(RecordingError::Open { session }.into()));
    }
    for sql in [
        "DELETE FROM keys WHERE session = ?",
        "DELETE FROM aliases WHERE session = ?",
        "DELETE FROM entries WHERE execution IN (SELECT execution FROM recordings WHERE session = ?)",
        "UPDATE events SET execution = NULL, piece = NULL, total = NULL, sealed = NULL
            WHERE session = ? AND piece IS NOT NULL",
        "DELETE FROM recordings WHERE session = ?",
        "DELETE FROM answers WHERE execution IN (SELECT execution FROM approvals WHERE session = ?)",
        "DELETE FROM approvals WHERE session = ?",
    ] {
        execute_cached(connection, sql, params![name])?;
    }
    Ok(Ok(()))
}

/// Deletes the recording of one ended execution, in a session that may continue.
fn forget_execution(connection: &Connection, execution: ExecutionId) -> CommandResult<()> {
    let name = execution.to_string();
    let over = connection
        .prepare_cached("SELECT 1 FROM recordings WHERE execution = ? AND state = 'over'")?
        .exists([&name])?;
    if !over {
        return Ok(Err(RecordingError::NoRecording { execution }.into()));
    }
    for sql in [
        "DELETE FROM entries WHERE execution = ?",
        "UPDATE events SET execution = NULL, piece = NULL, total = NULL, sealed = NULL
            WHERE session = (SELECT session FROM recordings WHERE execution = ?1) AND execution = ?1",
        "DELETE FROM recordings WHERE execution = ?",
    ] {
        execute_cached(connection, sql, params![name])?;
    }
    Ok(Ok(()))
}
