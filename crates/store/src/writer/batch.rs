//! One commit: each command in turn is applied, and its events are appended to their chains.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ringfence_journal::{
    ChainHead, ChainTip, Event, EventError, EventKind, ExecutionId, HeadMark, HeadSigner, HeadState, LeaseId,
    Principal, Record, RecordError, RecordPosition, SessionId,
};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::chain::{self, ChainTerms, MAX_SESSION_BYTES, OwnedChain};
use super::row::{hash_at, optional_text_at, text_at, unsigned_at};
use super::sealing::SealedChange;
use super::{CommitCallback, ReplySender, WriterCommand, approvals, idempotency, projection, pruning, workspaces};
use crate::database::{SqliteErrorClass, to_signed};
use crate::prune::{PruneRequest, PruneSummary};
use crate::session::{AdoptError, NewSession};
use crate::stop::StopTarget;

pub(super) const INSERT_RECORD: &str = "INSERT INTO events (session, seq, prev, json, hash) VALUES (?, ?, ?, ?, ?)";

/// The result of one command; a database error fails the whole commit.
pub(super) type CommandResult<T, E = RecordError> = Result<Result<T, E>, rusqlite::Error>;

/// The changes of a commit, applied in memory only after it has succeeded.
pub(super) struct BatchEffects {
    /// New chain tips; `None` for sessions that this process no longer owns.
    pub(super) changed: HashMap<SessionId, Option<OwnedChain>>,
    /// The mark of the last head that was signed.
    pub(super) mark: Option<HeadMark>,
    /// The committed records, in order.
    pub(super) records: Vec<Record>,
    /// The sealed changes that were stored with them.
    pub(super) kept: Vec<SealedChange>,
    pub(super) over: Vec<ExecutionId>,
}

pub(super) struct CommitBatch<'a> {
    pub(super) connection: &'a Connection,
    signer: &'a HeadSigner,
    owned: &'a HashMap<SessionId, OwnedChain>,
    pub(super) effects: BatchEffects,
    /// Executions with a piece that was not stored: a later piece would leave a gap.
    pub(super) holes: HashSet<ExecutionId>,
}

impl<'a> CommitBatch<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        signer: &'a HeadSigner,
        owned: &'a HashMap<SessionId, OwnedChain>,
    ) -> CommitBatch<'a> {
        let effects = BatchEffects {
            changed: HashMap::new(),
            mark: None,
            records: Vec::new(),
            kept: Vec::new(),
            over: Vec::new(),
        };
        CommitBatch {
            connection,
            signer,
            owned,
            effects,
            holes: HashSet::new(),
        }
    }

    pub(super) fn finish(self) -> BatchEffects {
        self.effects
    }

    /// Applies a command and queues its reply; an error fails the whole commit.
    pub(super) fn apply(
        &mut self,
        command: WriterCommand,
        sealed: Option<Result<SealedChange, RecordError>>,
        answers: &mut Vec<CommitCallback>,
    ) -> Result<(), rusqlite::Error> {
        use WriterCommand as Command;
        match command {
            Command::Record { event, change, reply } => match change {
                Some(change) => queue(reply, self.record_with(&event, &change, sealed), answers),
                None => queue(reply, self.record(&event), answers),
            },
            Command::Change { change, reply } => queue(reply, self.apply_change(&change, sealed), answers),
            Command::KeepAliases { reply, .. } => queue(reply, self.keep_aliases(sealed), answers),
            Command::Resume { execution, to, reply } => queue(reply, self.resume_execution(execution, to), answers),
            Command::LeaveUnfinished { session, from, reply } => {
                queue(reply, self.leave_unfinished(session, from).map(Ok), answers)
            }
            Command::Forget {
                session,
                execution,
                reply,
            } => queue(reply, self.forget_recordings(session, execution), answers),
            Command::Answer { id, shown, said, reply } => {
                let accepted = approvals::accept_answer(self.connection, id, shown, &said, sealed);
                queue(reply, accepted, answers)
            }
            Command::Settle { id, state, reply } => {
                let settled = approvals::settle_question(self.connection, id, state);
                queue(reply, settled.map(Ok), answers)
            }
            Command::Open { opening, lease, reply } => queue(reply, self.open_session(&opening, lease), answers),
            Command::Adopt {
                session,
                from,
                to,
                reply,
            } => queue(reply, self.adopt_session(session, from, to), answers),
            Command::Enter { session, to, reply } => queue(reply, self.enter_session(session, to), answers),
            Command::Park { session, reply } => queue(reply, self.park_session(session), answers),
            Command::NoteWorkspace {
                session,
                bytes,
                files,
                reply,
            } => {
                let noted = workspaces::note_usage(self.connection, session, bytes, files);
                queue(reply, noted.map(Ok), answers)
            }
            Command::Release { session, reply } => queue(reply, self.release_session(session), answers),
            Command::Claim { claim, lease, reply } => {
                queue(reply, idempotency::claim_key(self.connection, &claim, lease), answers)
            }
            Command::Reclaim {
                execution,
                from,
                to,
                reply,
            } => {
                let taken = idempotency::reclaim(self.connection, execution, from, to);
                queue(reply, taken.map(Ok), answers)
            }
            Command::KeepPolicy {
                session,
                policy,
                json,
                reply,
            } => {
                let kept = projection::keep_policy(self.connection, session, &policy, &json);
                queue(reply, kept.map(Ok), answers)
            }
            Command::Stop { target, by, reply } => queue(reply, self.request_stop(target, by), answers),
            Command::Prune { what, reply } => queue(reply, self.prune(what), answers),
            Command::CatchUp { reply } => queue(reply, Ok(Ok(())), answers),
            Command::Close { .. } => Ok(()),
        }
    }

    pub(super) fn chain(&self, session: SessionId) -> Option<OwnedChain> {
        match self.effects.changed.get(&session) {
            Some(changed) => *changed,
            None => self.owned.get(&session).copied(),
        }
    }

    fn record(&mut self, event: &Event) -> CommandResult<RecordPosition> {
        let session = event.session;
        if let Err(error) = self.record_unheard_answers(event)? {
            return Ok(Err(error));
        }
        match self.chain(session) {
            Some(chain) => self.append(chain, event),
            // An event outside any opened session, such as a refusal or a sweep, is a chain of its own.
            None if event.kind.stands_alone() => {
                let record = match ChainTip::start(session).next(event) {
                    Ok(record) => self.insert_record(record)?,
                    Err(error) => Err(event_error(error)),
                };
                let record = match record {
                    Ok(record) => record,
                    Err(RecordError::Forked { .. }) => {
                        return Ok(Err(RecordError::NotOwned { session }));
                    }
                    Err(error) => return Ok(Err(error)),
                };
                self.append_head(record.tip(), HeadState::Closed)?;
                Ok(Ok(self.keep_record(record)))
            }
            None => Ok(Err(self.missing_session_error(session)?)),
        }
    }

    /// The error for a session that this process does not own.
    pub(super) fn missing_session_error(&mut self, session: SessionId) -> Result<RecordError, rusqlite::Error> {
        let state: Option<String> = self
            .connection
            .prepare_cached("SELECT state FROM sessions WHERE id = ?")?
            .query_row([session.to_string()], |row| row.get(0))
            .optional()?;
        Ok(match state.as_deref() {
            None | Some("open") => RecordError::NotOwned { session },
            Some(_) => RecordError::Closed { session },
        })
    }

    pub(super) fn append(&mut self, chain: OwnedChain, event: &Event) -> CommandResult<RecordPosition> {
        let (record, after) = match chain.append(event) {
            Ok(next) => next,
            Err(error) => return Ok(Err(error)),
        };
        let record = match self.insert_record(record)? {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        projection::apply_event(self.connection, event)?;
        let closed = matches!(event.kind, EventKind::SessionClosed { .. });
        if event.kind.is_signed() {
            let state = if closed {
                HeadState::Closed
            } else {
                HeadState::Checkpoint
            };
            self.append_head(record.tip(), state)?;
        }
        if matches!(event.kind, EventKind::ExecutionEnded { .. }) {
            self.effects.over.extend(event.execution);
        }
        self.effects.changed.insert(event.session, (!closed).then_some(after));
        Ok(Ok(self.keep_record(record)))
    }

    fn keep_record(&mut self, record: Record) -> RecordPosition {
        let recorded = RecordPosition {
            seq: record.seq,
            hash: record.hash,
        };
        self.effects.records.push(record);
        recorded
    }

    fn insert_record(&mut self, record: Record) -> CommandResult<Record> {
        let inserted = self
            .connection
            .prepare_cached(INSERT_RECORD)?
            .execute(params_from_iter(record_values(&record)));
        match inserted {
            Ok(_) => Ok(Ok(record)),
            Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
                Ok(Err(RecordError::Forked {
                    session: record.session,
                    seq: record.seq,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Appends a signed head. The write lock is held, so the last known head is the newest.
    fn append_head(&mut self, link: ChainTip, state: HeadState) -> Result<(), rusqlite::Error> {
        let last = match self.effects.mark {
            Some(mark) => mark,
            None => last_head(self.connection)?,
        };
        let signed_head = self.signer.sign(ChainHead {
            n: last.n + 1,
            prev: last.hash,
            session: link.session,
            seq: link.seq,
            record: link.hash,
            state,
        });
        let head = &signed_head.head;
        self.connection
            .prepare_cached(
                "INSERT INTO heads (n, prev, session, seq, record, closed, signature) VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                to_signed(head.n),
                head.prev.as_bytes(),
                head.session.to_string(),
                to_signed(head.seq),
                head.record.as_bytes(),
                head.state == HeadState::Closed,
                signed_head.signature
            ])?;
        self.effects.mark = Some(HeadMark::after(head));
        Ok(())
    }

    fn open_session(&mut self, opening: &NewSession, lease: LeaseId) -> CommandResult<RecordPosition> {
        let event = opening.opening_event();
        let session = event.session;
        if self.chain(session).is_some() {
            return Ok(Err(RecordError::Forked { session, seq: 1 }));
        }
        let name = opening.keeping.as_ref().and_then(|keeping| keeping.name.as_deref());
        if let Some(other) = workspaces::find_named(self.connection, opening.principal, name)? {
            // Another process opened a session with this name first.
            return Ok(Err(RecordError::NotOwned { session: other }));
        }
        let record = match ChainTip::start(session).next(&event) {
            Ok(record) => self.insert_record(record)?,
            Err(error) => Err(event_error(error)),
        };
        let record = match record {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        projection::insert_session(self.connection, opening, lease, &event)?;
        chain::set_limit(self.connection, session, opening.journal_bytes)?;
        let chain = OwnedChain {
            link: record.tip(),
            lease,
            durable: opening.durable,
            at: event.at,
            bytes: record.json.len() as u64,
            sealed: 0,
            limit: opening.journal_bytes,
        };
        self.effects.changed.insert(session, Some(chain));
        Ok(Ok(self.keep_record(record)))
    }

    pub(super) fn adopt_session(
        &mut self,
        session: SessionId,
        from: Option<LeaseId>,
        to: LeaseId,
    ) -> CommandResult<(), AdoptError> {
        let row = self
            .connection
            .prepare_cached("SELECT state, lease, durable, coalesce(journal_bytes, ?2) FROM sessions WHERE id = ?1")?
            .query_row((session.to_string(), to_signed(MAX_SESSION_BYTES)), |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    optional_text_at::<LeaseId>(row, 1)?,
                    unsigned_at(row, 2)? != 0,
                    unsigned_at(row, 3)?,
                ))
            })
            .optional()?;
        let Some((state, owner, durable, limit)) = row else {
            return Ok(Err(AdoptError::Unknown { session }));
        };
        // An interrupted sweep leaves a session that is lost but still has its lease.
        if state != "open" && owner.is_none() {
            return Ok(Err(AdoptError::Closed { session }));
        }
        if owner != from {
            return Ok(Err(AdoptError::Owned { session }));
        }
        self.connection
            .prepare_cached("UPDATE sessions SET lease = ? WHERE id = ?")?
            .execute(params![to.to_string(), session.to_string()])?;
        workspaces::note_taken(self.connection, &session.to_string())?;
        let terms = ChainTerms {
            lease: to,
            durable,
            limit,
        };
        let chain = OwnedChain::load(self.connection, session, terms)?;
        self.effects.changed.insert(session, Some(chain));
        Ok(Ok(()))
    }

    pub(super) fn release_session(&mut self, session: SessionId) -> CommandResult<()> {
        if self.chain(session).is_none() {
            return Ok(Err(RecordError::NotOwned { session }));
        }
        self.connection
            .prepare_cached("UPDATE sessions SET lease = NULL WHERE id = ?")?
            .execute([session.to_string()])?;
        self.effects.changed.insert(session, None);
        Ok(Ok(()))
    }

    /// Removes a part of the old records and records what is removed.
    fn prune(&mut self, what: PruneRequest) -> CommandResult<PruneSummary> {
        self.connection.execute_batch("SAVEPOINT prune")?;
        let removed = match pruning::remove_oldest(self.connection, what)? {
            Some((event, pruned)) => self.record(&event)?.map(|_| pruned),
            None => Ok(PruneSummary::default()),
        };
        if removed.is_err() {
            // Nothing is removed without a record of it.
            self.connection.execute_batch("ROLLBACK TO prune")?;
        }
        self.connection.execute_batch("RELEASE prune")?;
        Ok(removed)
    }

    fn request_stop(&mut self, target: StopTarget, by: Principal) -> CommandResult<Vec<(SessionId, Option<LeaseId>)>> {
        projection::insert_stops(self.connection, target, by).map(Ok)
    }
}

/// Queues the reply of a catch-up command, which has succeeded by now.
pub(super) fn queue_catch_up(command: WriterCommand, answers: &mut Vec<CommitCallback>) {
    if let WriterCommand::CatchUp { reply } = command {
        queue_reply(reply, Ok(()), answers);
    }
}

/// Queues the reply of a command after a failure: it gets the error of that failure.
pub(super) fn queue_skipped(command: WriterCommand, answers: &mut Vec<CommitCallback>) {
    let ended = RecordError::Ended;
    match command {
        WriterCommand::Record { reply, .. } | WriterCommand::Open { reply, .. } => {
            queue_reply(reply, Err(ended), answers);
        }
        WriterCommand::Adopt { reply, .. }
        | WriterCommand::Resume { reply, .. }
        | WriterCommand::Enter { reply, .. } => {
            queue_reply(reply, Err(ended.into()), answers);
        }
        WriterCommand::Change { reply, .. }
        | WriterCommand::KeepAliases { reply, .. }
        | WriterCommand::Forget { reply, .. }
        | WriterCommand::Park { reply, .. }
        | WriterCommand::NoteWorkspace { reply, .. }
        | WriterCommand::Release { reply, .. }
        | WriterCommand::KeepPolicy { reply, .. }
        | WriterCommand::CatchUp { reply } => queue_reply(reply, Err(ended), answers),
        WriterCommand::LeaveUnfinished { reply, .. } | WriterCommand::Reclaim { reply, .. } => {
            queue_reply(reply, Err(ended), answers);
        }
        WriterCommand::Answer { reply, .. } => queue_reply(reply, Err(ended), answers),
        WriterCommand::Settle { reply, .. } => queue_reply(reply, Err(ended), answers),
        WriterCommand::Claim { reply, .. } => queue_reply(reply, Err(ended), answers),
        WriterCommand::Stop { reply, .. } => queue_reply(reply, Err(ended), answers),
        WriterCommand::Prune { reply, .. } => queue_reply(reply, Err(ended), answers),
        WriterCommand::Close { .. } => {}
    }
}

fn queue<T: Send + 'static, E: From<RecordError> + Send + 'static>(
    reply: ReplySender<T, E>,
    step: CommandResult<T, E>,
    answers: &mut Vec<CommitCallback>,
) -> Result<(), rusqlite::Error> {
    let (result, outcome) = match step {
        Ok(result) => (result, Ok(())),
        Err(error) => (Err(RecordError::Ended.into()), Err(error)),
    };
    queue_reply(reply, result, answers);
    outcome
}

pub(super) fn queue_reply<T: Send + 'static, E: From<RecordError> + Send + 'static>(
    reply: ReplySender<T, E>,
    result: Result<T, E>,
    answers: &mut Vec<CommitCallback>,
) {
    answers.push(Box::new(move |failed| {
        // The caller may have stopped waiting; the commit stays valid.
        let _ = reply.send(match failed {
            Some(error) => Err(error.into()),
            None => result,
        });
    }));
}

fn event_error(error: EventError) -> RecordError {
    RecordError::Event {
        source: Arc::new(error),
    }
}

/// The column values of a record, in the order of the insert statement.
pub(super) fn record_values(record: &Record) -> [ToSqlOutput<'_>; 5] {
    [
        record.session.to_string().into(),
        to_signed(record.seq).into(),
        record.prev.as_bytes().as_slice().into(),
        record.json.as_str().into(),
        record.hash.as_bytes().as_slice().into(),
    ]
}

/// The mark of the last signed head.
pub(crate) fn last_head(connection: &Connection) -> Result<HeadMark, rusqlite::Error> {
    let head = connection
        .prepare_cached("SELECT n, prev, session, seq, record, closed FROM heads ORDER BY n DESC LIMIT 1")?
        .query_row([], head_row)
        .optional()?;
    Ok(head.map_or_else(HeadMark::start, |head| HeadMark::after(&head)))
}

/// Reads a head from its row, without the signature.
pub(crate) fn head_row(row: &Row<'_>) -> Result<ChainHead, rusqlite::Error> {
    Ok(ChainHead {
        n: unsigned_at(row, 0)?,
        prev: hash_at(row, 1)?,
        session: text_at(row, 2)?,
        seq: unsigned_at(row, 3)?,
        record: hash_at(row, 4)?,
        state: if unsigned_at(row, 5)? == 0 {
            HeadState::Checkpoint
        } else {
            HeadState::Closed
        },
    })
}

/// Writes the only record of a session that was never opened, and its head; returns the mark of that head. The caller holds the write lock,
/// commits, and moves the mark.
pub(crate) fn record_alone(connection: &Connection, signer: &HeadSigner, event: &Event) -> CommandResult<HeadMark> {
    let owned = HashMap::new();
    let mut batch = CommitBatch::new(connection, signer, &owned);
    if let Err(error) = batch.record(event)? {
        return Ok(Err(error));
    }
    let session = event.session;
    Ok(batch.effects.mark.ok_or(RecordError::NotOwned { session }))
}
