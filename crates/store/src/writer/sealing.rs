//! Seals the changes of commands before the write lock is taken; caches keys and recording positions of the sessions that this process
//! owns.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_journal::{Entry, ExecutionId, RecordError, SessionId};
use rusqlite::{Connection, OptionalExtension as _};

use super::command::{Change, KeepError};
use super::row::{number, parsed};
use super::{Chain, Command, pieces};
use crate::database::signed;
use crate::seal::{Absent, Place, Seal, SealError, Seals};

const LAST_ENTRY: &str = "SELECT n, total FROM entries WHERE execution = ? ORDER BY n DESC LIMIT 1";
const LAST_PIECE: &str = "SELECT e.piece, e.total FROM recordings r JOIN events e
        ON e.session = r.session AND e.seq > coalesce(r.since, 0) AND e.execution = r.execution
    WHERE r.execution = ? AND e.piece IS NOT NULL ORDER BY e.seq DESC LIMIT 1";

/// The end of an execution's recording: the next piece follows here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tape {
    session: SessionId,
    n: i64,
    total: i64,
}

/// The sealed entries of one commit.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) execution: ExecutionId,
    pub(crate) session: SessionId,
    pub(crate) n: i64,
    pub(crate) total: i64,
    pub(crate) sealed: Vec<u8>,
}

/// The sealed form of a command's change.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) session: SessionId,
    /// The session's key, if this process has just created it.
    pub(super) key: Option<Fresh>,
    /// The sealed request, outcome, question, note or aliases.
    pub(super) body: Option<Vec<u8>>,
    pub(super) piece: Option<Piece>,
    /// The number of this part of the aliases.
    pub(super) part: Option<i64>,
}

/// A session key that is not in the database yet.
#[derive(Debug, Clone)]
pub(super) struct Fresh {
    pub(super) wrapped: Arc<[u8]>,
    seal: Arc<Seal>,
}

/// The sealed change of each command; empty if no command has one.
pub(super) type AllSealed = Vec<Option<Result<Sealed, RecordError>>>;

/// Cached keys and recording positions of this process's sessions.
#[derive(Debug)]
pub(super) struct Sealer {
    seals: Seals,
    keys: HashMap<SessionId, Arc<Seal>>,
    tapes: HashMap<ExecutionId, Tape>,
}

/// The sealing of one commit, before the commit is known to succeed.
struct Round<'a> {
    sealer: &'a Sealer,
    connection: &'a Connection,
    fresh: HashMap<SessionId, Fresh>,
    loaded: HashMap<SessionId, Arc<Seal>>,
    tapes: HashMap<ExecutionId, Tape>,
    /// The number of each session's last aliases part.
    parts: HashMap<SessionId, i64>,
}

/// The result of sealing; a database error fails the whole commit.
type Step<T> = Result<Result<T, KeepError>, rusqlite::Error>;

macro_rules! ok {
    ($step:expr) => {
        match $step {
            Ok(value) => value,
            Err(error) => return Ok(Err(error.into())),
        }
    };
}

impl Sealer {
    pub(super) fn new(seals: Seals) -> Sealer {
        Sealer {
            seals,
            keys: HashMap::new(),
            tapes: HashMap::new(),
        }
    }

    /// Seals the changes of all commands.
    pub(super) fn seal(
        &mut self,
        connection: &Connection,
        commands: &[Command],
        owned: &HashMap<SessionId, Chain>,
    ) -> Result<AllSealed, rusqlite::Error> {
        let keeps = |command: &Command| {
            command.change().is_some() || matches!(command, Command::Answer { .. } | Command::Alias { .. })
        };
        if !commands.iter().any(keeps) {
            return Ok(Vec::new());
        }
        let mut round = Round {
            sealer: self,
            connection,
            fresh: HashMap::new(),
            loaded: HashMap::new(),
            tapes: HashMap::new(),
            parts: HashMap::new(),
        };
        let mut all = Vec::with_capacity(commands.len());
        for command in commands {
            let sealed = match (command.change(), command) {
                (Some(change), _) => Some(round.change(change)?.map_err(RecordError::from)),
                (None, Command::Answer { id, said, .. }) => match &said.note {
                    Some(note) => round.note(&id.to_string(), note)?,
                    None => None,
                },
                (None, Command::Alias { session, part, .. }) => {
                    Some(round.aliases(*session, part)?.map_err(RecordError::from))
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
    pub(super) fn advance(&mut self, piece: &Piece) {
        let tape = Tape {
            session: piece.session,
            n: piece.n,
            total: piece.total,
        };
        self.tapes.insert(piece.execution, tape);
    }

    /// Caches the key and position of a committed change.
    pub(super) fn learn(&mut self, kept: &Sealed) {
        if let Some(key) = &kept.key {
            self.keys.insert(kept.session, Arc::clone(&key.seal));
        }
        if let Some(piece) = &kept.piece {
            self.advance(piece);
        }
    }

    /// Drops the cache of a session that this process no longer owns.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.keys.remove(&session);
        self.tapes.retain(|_, tape| tape.session != session);
    }

    /// Drops the position of a recording that has ended.
    pub(super) fn finish(&mut self, execution: ExecutionId) {
        self.tapes.remove(&execution);
    }
}

impl Round<'_> {
    fn change(&mut self, change: &Change) -> Step<Sealed> {
        let execution = change.execution();
        let begun = self.tape(execution)?;
        let session = match (change, begun) {
            (Change::Begin(recording), _) => recording.session,
            (Change::Ask { question, .. }, _) => question.session,
            (Change::Keep { session, .. }, Some(tape)) if tape.session != *session => {
                let (session, other) = (*session, tape.session);
                return Ok(Err(KeepError::Elsewhere { session, other }));
            }
            (_, Some(tape)) => tape.session,
            (_, None) => return Ok(Err(KeepError::NoRecording { execution })),
        };
        let (seal, fresh) = ok!(self.key(session)?);
        let name = execution.to_string();
        let body = match change {
            Change::Begin(recording) => {
                let begun = Tape {
                    session,
                    n: 0,
                    total: 0,
                };
                self.tapes.insert(execution, begun);
                Some(ok!(seal.close(Place::Request(&name), &[&recording.request])))
            }
            Change::Finish { outcome, .. } => Some(ok!(seal.close(Place::Outcome(&name), &[outcome]))),
            Change::Ask { question, .. } => {
                let secret = ok!(question.secret().map_err(KeepError::Question));
                let id = question.id.to_string();
                Some(ok!(seal.close(Place::Question(&id), &[&secret])))
            }
            Change::Keep { .. } | Change::Spoil { .. } | Change::Suspend { .. } => None,
        };
        let piece = match change.entries() {
            [] => None,
            entries => match begun {
                Some(tape) => Some(ok!(self.piece(&seal, execution, tape, entries))),
                None => return Ok(Err(KeepError::NoRecording { execution })),
            },
        };
        let key = fresh;
        Ok(Ok(Sealed {
            session,
            key,
            body,
            piece,
            part: None,
        }))
    }

    fn piece(
        &mut self,
        seal: &Seal,
        execution: ExecutionId,
        tape: Tape,
        entries: &[Entry],
    ) -> Result<Piece, KeepError> {
        let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let tape = Tape {
            n: tape.n + 1,
            total: tape.total.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)),
            ..tape
        };
        let plain = pieces::join(entries).ok_or(KeepError::Length)?;
        let sealed = seal.close(Place::Entries(&execution.to_string(), tape.n), &[&plain])?;
        self.tapes.insert(execution, tape);
        Ok(Piece {
            execution,
            session: tape.session,
            n: tape.n,
            total: tape.total,
            sealed,
        })
    }

    /// Seals the note of an answer. `None` if the question does not exist: then nothing is written.
    fn note(&mut self, id: &str, note: &str) -> Result<Option<Result<Sealed, RecordError>>, rusqlite::Error> {
        let session: Option<SessionId> = self
            .connection
            .prepare_cached("SELECT session FROM approvals WHERE id = ?")?
            .query_row([id], |row| parsed(row, 0))
            .optional()?;
        let Some(session) = session else { return Ok(None) };
        let sealed = match self.key(session)? {
            Ok((_, Some(_))) => Err(SealError::Deleted { session }.into()),
            Ok((seal, None)) => seal
                .close(Place::Note(id), &[note.as_bytes()])
                .map(|body| Sealed {
                    session,
                    key: None,
                    body: Some(body),
                    piece: None,
                    part: None,
                })
                .map_err(KeepError::from),
            Err(error) => Err(error),
        };
        Ok(Some(sealed.map_err(RecordError::from)))
    }

    /// Seals the next part of a session's aliases. Only the process that owns the session adds parts.
    fn aliases(&mut self, session: SessionId, part: &[u8]) -> Step<Sealed> {
        let name = session.to_string();
        let last = match self.parts.get(&session) {
            Some(last) => *last,
            None => self
                .connection
                .prepare_cached("SELECT coalesce(max(n), 0) FROM aliases WHERE session = ?")?
                .query_row([&name], |row| row.get(0))?,
        };
        let n = last + 1;
        let (seal, key) = ok!(self.key(session)?);
        let body = Some(ok!(seal.close(Place::Aliases(&name, n), &[part])));
        self.parts.insert(session, n);
        Ok(Ok(Sealed {
            session,
            key,
            body,
            piece: None,
            part: Some(n),
        }))
    }

    /// The end of an execution's recording; `None` if it has none.
    fn tape(&self, execution: ExecutionId) -> Result<Option<Tape>, rusqlite::Error> {
        if let Some(tape) = self.tapes.get(&execution).or_else(|| self.sealer.tapes.get(&execution)) {
            return Ok(Some(*tape));
        }
        let name = execution.to_string();
        let session: Option<SessionId> = self
            .connection
            .prepare_cached("SELECT session FROM recordings WHERE execution = ?")?
            .query_row([&name], |row| parsed(row, 0))
            .optional()?;
        let Some(session) = session else { return Ok(None) };
        let last = |sql: &str| {
            self.connection
                .prepare_cached(sql)?
                .query_row([&name], |row| Ok((signed(number(row, 0)?), signed(number(row, 1)?))))
                .optional()
        };
        let [entry, beside] = [last(LAST_ENTRY)?, last(LAST_PIECE)?].map(Option::unwrap_or_default);
        let (n, total) = entry.max(beside);
        Ok(Some(Tape { session, n, total }))
    }

    /// The key of a session, and its wrapped form if it is new.
    fn key(&mut self, session: SessionId) -> Step<(Arc<Seal>, Option<Fresh>)> {
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
            let seal = Arc::new(ok!(self.sealer.seals.unwrap(session, &wrapped)));
            self.loaded.insert(session, Arc::clone(&seal));
            return Ok(Ok((seal, None)));
        }
        // A new folder key must not replace a lost one that has wrapped session keys.
        let wrapped = self
            .connection
            .prepare_cached("SELECT 1 FROM keys LIMIT 1")?
            .exists([])?;
        let absent = if wrapped { Absent::Refuse } else { Absent::Make };
        let (seal, wrapped) = ok!(self.sealer.seals.make(session, absent));
        let fresh = Fresh {
            wrapped: wrapped.into(),
            seal: Arc::new(seal),
        };
        self.fresh.insert(session, fresh.clone());
        Ok(Ok((Arc::clone(&fresh.seal), Some(fresh))))
    }
}
