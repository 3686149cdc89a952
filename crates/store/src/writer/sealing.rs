//! Seals the changes of commands before the write lock is taken; caches keys and recording positions of the sessions that this process
//! owns.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_journal::{ExecutionId, RecordError, ReplayEntry, SessionId};
use rusqlite::{Connection, OptionalExtension as _};

use super::command::{RecordingChange, RecordingError};
use super::row::{text_at, unsigned_at};
use super::{OwnedChain, WriterCommand, entry_codec};
use crate::database::to_signed;
use crate::seal::{MissingKey, SealContext, SealError, SealKeyring, SealingKey};

const LAST_ENTRY: &str = "SELECT n, total FROM entries WHERE execution = ? ORDER BY n DESC LIMIT 1";
const LAST_PIECE: &str = "SELECT e.piece, e.total FROM recordings r JOIN events e
        ON e.session = r.session AND e.seq > coalesce(r.since, 0) AND e.execution = r.execution
    WHERE r.execution = ? AND e.piece IS NOT NULL ORDER BY e.seq DESC LIMIT 1";

/// The end of an execution's recording: the next piece follows here.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordingPosition {
    session: SessionId,
    n: i64,
    total: i64,
}

/// The sealed entries of one commit.
#[derive(Debug)]
pub(crate) struct SealedPiece {
    pub(crate) execution: ExecutionId,
    pub(crate) session: SessionId,
    pub(crate) n: i64,
    pub(crate) total: i64,
    pub(crate) sealed: Vec<u8>,
}

/// The sealed form of a command's change.
#[derive(Debug)]
pub(super) struct SealedChange {
    pub(super) session: SessionId,
    /// The session's key, if this process has just created it.
    pub(super) key: Option<NewSessionKey>,
    /// The sealed request, outcome, question, note or aliases.
    pub(super) body: Option<Vec<u8>>,
    pub(super) piece: Option<SealedPiece>,
    /// The number of this part of the aliases.
    pub(super) part: Option<i64>,
}

/// A session key that is not in the database yet.
#[derive(Debug, Clone)]
pub(super) struct NewSessionKey {
    pub(super) wrapped: Arc<[u8]>,
    seal: Arc<SealingKey>,
}

/// The sealed change of each command; empty if no command has one.
pub(super) type SealedChanges = Vec<Option<Result<SealedChange, RecordError>>>;

/// Cached keys and recording positions of this process's sessions.
#[derive(Debug)]
pub(super) struct Sealer {
    seals: SealKeyring,
    keys: HashMap<SessionId, Arc<SealingKey>>,
    positions: HashMap<ExecutionId, RecordingPosition>,
}

/// The sealing of one commit, before the commit is known to succeed.
struct SealingRound<'a> {
    sealer: &'a Sealer,
    connection: &'a Connection,
    fresh: HashMap<SessionId, NewSessionKey>,
    loaded: HashMap<SessionId, Arc<SealingKey>>,
    positions: HashMap<ExecutionId, RecordingPosition>,
    /// The number of each session's last aliases part.
    parts: HashMap<SessionId, i64>,
}

/// The result of sealing; a database error fails the whole commit.
type SealResult<T> = Result<Result<T, RecordingError>, rusqlite::Error>;

macro_rules! ok {
    ($step:expr) => {
        match $step {
            Ok(value) => value,
            Err(error) => return Ok(Err(error.into())),
        }
    };
}

impl Sealer {
    pub(super) fn new(seals: SealKeyring) -> Sealer {
        Sealer {
            seals,
            keys: HashMap::new(),
            positions: HashMap::new(),
        }
    }

    /// Seals the changes of all commands.
    pub(super) fn seal_commands(
        &mut self,
        connection: &Connection,
        commands: &[WriterCommand],
        owned: &HashMap<SessionId, OwnedChain>,
    ) -> Result<SealedChanges, rusqlite::Error> {
        let keeps = |command: &WriterCommand| {
            command.change().is_some()
                || matches!(
                    command,
                    WriterCommand::Answer { .. } | WriterCommand::KeepAliases { .. }
                )
        };
        if !commands.iter().any(keeps) {
            return Ok(Vec::new());
        }
        let mut round = SealingRound {
            sealer: self,
            connection,
            fresh: HashMap::new(),
            loaded: HashMap::new(),
            positions: HashMap::new(),
            parts: HashMap::new(),
        };
        let mut all = Vec::with_capacity(commands.len());
        for command in commands {
            let sealed = match (command.change(), command) {
                (Some(change), _) => Some(round.seal_change(change)?.map_err(RecordError::from)),
                (None, WriterCommand::Answer { id, said, .. }) => match &said.note {
                    Some(note) => round.seal_note(&id.to_string(), note)?,
                    None => None,
                },
                (None, WriterCommand::KeepAliases { session, part, .. }) => {
                    Some(round.seal_aliases(*session, part)?.map_err(RecordError::from))
                }
                (None, _) => None,
            };
            all.push(sealed);
        }
        let mut loaded = round.loaded;
        loaded.retain(|session, _| owned.contains_key(session));
        self.keys.extend(loaded);
        Ok(all)
    }

    /// Moves the recording position past a committed piece.
    pub(super) fn note_committed_piece(&mut self, piece: &SealedPiece) {
        let tape = RecordingPosition {
            session: piece.session,
            n: piece.n,
            total: piece.total,
        };
        self.positions.insert(piece.execution, tape);
    }

    /// Caches the key and position of a committed change.
    pub(super) fn note_committed_change(&mut self, kept: &SealedChange) {
        if let Some(key) = &kept.key {
            self.keys.insert(kept.session, Arc::clone(&key.seal));
        }
        if let Some(piece) = &kept.piece {
            self.note_committed_piece(piece);
        }
    }

    /// Drops the cache of a session that this process no longer owns.
    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.keys.remove(&session);
        self.positions.retain(|_, tape| tape.session != session);
    }

    /// Drops the position of a recording that has ended.
    pub(super) fn forget_execution(&mut self, execution: ExecutionId) {
        self.positions.remove(&execution);
    }
}

impl SealingRound<'_> {
    fn seal_change(&mut self, change: &RecordingChange) -> SealResult<SealedChange> {
        let execution = change.execution();
        let begun = self.position(execution)?;
        let session = match (change, begun) {
            (RecordingChange::Begin(recording), _) => recording.session,
            (RecordingChange::Ask { question, .. }, _) => question.session,
            (RecordingChange::Keep { session, .. }, Some(tape)) if tape.session != *session => {
                let (session, other) = (*session, tape.session);
                return Ok(Err(RecordingError::Elsewhere { session, other }));
            }
            (_, Some(tape)) => tape.session,
            (_, None) => return Ok(Err(RecordingError::NoRecording { execution })),
        };
        let (seal, fresh) = ok!(self.session_key(session)?);
        let name = execution.to_string();
        let body = match change {
            RecordingChange::Begin(recording) => {
                let begun = RecordingPosition {
                    session,
                    n: 0,
                    total: 0,
                };
                self.positions.insert(execution, begun);
                Some(ok!(seal.seal(SealContext::Request(&name), &[&recording.request])))
            }
            RecordingChange::Finish { outcome, .. } => Some(ok!(seal.seal(SealContext::Outcome(&name), &[outcome]))),
            RecordingChange::Ask { question, .. } => {
                let secret = ok!(question.secret_json().map_err(RecordingError::Question));
                let id = question.id.to_string();
                Some(ok!(seal.seal(SealContext::Question(&id), &[&secret])))
            }
            RecordingChange::Keep { .. }
            | RecordingChange::MarkUnrepeatable { .. }
            | RecordingChange::Suspend { .. } => None,
        };
        let piece = match change.entries() {
            [] => None,
            entries => match begun {
                Some(tape) => Some(ok!(self.seal_piece(&seal, execution, tape, entries))),
                None => return Ok(Err(RecordingError::NoRecording { execution })),
            },
        };
        let key = fresh;
        Ok(Ok(SealedChange {
            session,
            key,
            body,
            piece,
            part: None,
        }))
    }

    fn seal_piece(
        &mut self,
        seal: &SealingKey,
        execution: ExecutionId,
        tape: RecordingPosition,
        entries: &[ReplayEntry],
    ) -> Result<SealedPiece, RecordingError> {
        let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let tape = RecordingPosition {
            n: tape.n + 1,
            total: tape.total.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)),
            ..tape
        };
        let plain = entry_codec::join_entries(entries).ok_or(RecordingError::Length)?;
        let sealed = seal.seal(SealContext::Entries(&execution.to_string(), tape.n), &[&plain])?;
        self.positions.insert(execution, tape);
        Ok(SealedPiece {
            execution,
            session: tape.session,
            n: tape.n,
            total: tape.total,
            sealed,
        })
    }

    /// Seals the note of an answer. `None` if the question does not exist: then nothing is written.
    fn seal_note(
        &mut self,
        id: &str,
        note: &str,
    ) -> Result<Option<Result<SealedChange, RecordError>>, rusqlite::Error> {
        let session: Option<SessionId> = self
            .connection
            .prepare_cached("SELECT session FROM approvals WHERE id = ?")?
            .query_row([id], |row| text_at(row, 0))
            .optional()?;
        let Some(session) = session else { return Ok(None) };
        let sealed = match self.session_key(session)? {
            Ok((_, Some(_))) => Err(SealError::Deleted { session }.into()),
            Ok((seal, None)) => seal
                .seal(SealContext::Note(id), &[note.as_bytes()])
                .map(|body| SealedChange {
                    session,
                    key: None,
                    body: Some(body),
                    piece: None,
                    part: None,
                })
                .map_err(RecordingError::from),
            Err(error) => Err(error),
        };
        Ok(Some(sealed.map_err(RecordError::from)))
    }

    /// Seals the next part of a session's aliases. Only the process that owns the session adds parts.
    fn seal_aliases(&mut self, session: SessionId, part: &[u8]) -> SealResult<SealedChange> {
        let name = session.to_string();
        let last = match self.parts.get(&session) {
            Some(last) => *last,
            None => self
                .connection
                .prepare_cached("SELECT coalesce(max(n), 0) FROM aliases WHERE session = ?")?
                .query_row([&name], |row| row.get(0))?,
        };
        let n = last + 1;
        let (seal, key) = ok!(self.session_key(session)?);
        let body = Some(ok!(seal.seal(SealContext::Aliases(&name, n), &[part])));
        self.parts.insert(session, n);
        Ok(Ok(SealedChange {
            session,
            key,
            body,
            piece: None,
            part: Some(n),
        }))
    }

    /// The end of an execution's recording; `None` if it has none.
    fn position(&self, execution: ExecutionId) -> Result<Option<RecordingPosition>, rusqlite::Error> {
        if let Some(tape) = self
            .positions
            .get(&execution)
            .or_else(|| self.sealer.positions.get(&execution))
        {
            return Ok(Some(*tape));
        }
        let name = execution.to_string();
        let session: Option<SessionId> = self
            .connection
            .prepare_cached("SELECT session FROM recordings WHERE execution = ?")?
            .query_row([&name], |row| text_at(row, 0))
            .optional()?;
        let Some(session) = session else { return Ok(None) };
        let last = |sql: &str| {
            self.connection
                .prepare_cached(sql)?
                .query_row([&name], |row| {
                    Ok((to_signed(unsigned_at(row, 0)?), to_signed(unsigned_at(row, 1)?)))
                })
                .optional()
        };
        let [entry, beside] = [last(LAST_ENTRY)?, last(LAST_PIECE)?].map(Option::unwrap_or_default);
        let (n, total) = entry.max(beside);
        Ok(Some(RecordingPosition { session, n, total }))
    }

    /// The key of a session, and its wrapped form if it is new.
    fn session_key(&mut self, session: SessionId) -> SealResult<(Arc<SealingKey>, Option<NewSessionKey>)> {
        let known = self.sealer.keys.get(&session).or_else(|| self.loaded.get(&session));
        if let Some(seal) = known {
            return Ok(Ok((Arc::clone(seal), None)));
        }
        if let Some(fresh) = self.fresh.get(&session) {
            return Ok(Ok((Arc::clone(&fresh.seal), Some(fresh.clone()))));
        }
        let wrapped: Option<Vec<u8>> = self
            .connection
            .prepare_cached("SELECT sealed FROM keys WHERE session = ?")?
            .query_row([session.to_string()], |row| row.get(0))
            .optional()?;
        if let Some(wrapped) = wrapped {
            let seal = Arc::new(ok!(self.sealer.seals.unwrap_session_key(session, &wrapped)));
            self.loaded.insert(session, Arc::clone(&seal));
            return Ok(Ok((seal, None)));
        }
        // A new folder key must not replace a lost one that has wrapped session keys.
        let wrapped = self
            .connection
            .prepare_cached("SELECT 1 FROM keys LIMIT 1")?
            .exists([])?;
        let absent = if wrapped {
            MissingKey::Refuse
        } else {
            MissingKey::Create
        };
        let (seal, wrapped) = ok!(self.sealer.seals.create_session_key(session, absent));
        let fresh = NewSessionKey {
            wrapped: wrapped.into(),
            seal: Arc::new(seal),
        };
        self.fresh.insert(session, fresh.clone());
        Ok(Ok((Arc::clone(&fresh.seal), Some(fresh))))
    }
}
