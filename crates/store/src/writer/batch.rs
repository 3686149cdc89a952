//! One commit: each command in turn is applied, and its events are appended to their chains.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ringfence_journal::{
    Event, EventError, ExecutionId, Head, HeadState, Kind, LeaseId, Link, Mark, Principal, Record, RecordError,
    Recorded, SessionId, Signer,
};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::chain::{self, Chain, SESSION_BYTES};
use super::row::{digest, maybe, number, parsed};
use super::sealing::Sealed;
use super::{Answer, Command, Reply, asking, claiming, keeping, project, pruning, working};
use crate::database::{Trouble, signed};
use crate::prune::{Prune, Pruned};
use crate::session::{AdoptError, Opening};
use crate::stop::Target;

pub(super) const INSERT: &str = "INSERT INTO events (session, seq, prev, json, hash) VALUES (?, ?, ?, ?, ?)";

/// The result of one command; a database error fails the whole commit.
pub(super) type Step<T, E = RecordError> = Result<Result<T, E>, rusqlite::Error>;

/// The changes of a commit, applied in memory only after it has succeeded.
pub(super) struct Done {
    /// New chain tips; `None` for sessions that this process no longer owns.
    pub(super) changed: HashMap<SessionId, Option<Chain>>,
    /// The mark of the last head that was signed.
    pub(super) mark: Option<Mark>,
    /// The committed records, in order.
    pub(super) records: Vec<Record>,
    /// The sealed changes that were stored with them.
    pub(super) kept: Vec<Sealed>,
    pub(super) over: Vec<ExecutionId>,
}

pub(super) struct Batch<'a> {
    pub(super) connection: &'a Connection,
    signer: &'a Signer,
    owned: &'a HashMap<SessionId, Chain>,
    pub(super) done: Done,
    /// Executions with a piece that was not stored: a later piece would leave a gap.
    pub(super) holes: HashSet<ExecutionId>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        signer: &'a Signer,
        owned: &'a HashMap<SessionId, Chain>,
    ) -> Batch<'a> {
        let done = Done {
            changed: HashMap::new(),
            mark: None,
            records: Vec::new(),
            kept: Vec::new(),
            over: Vec::new(),
        };
        Batch {
            connection,
            signer,
            owned,
            done,
            holes: HashSet::new(),
        }
    }

    pub(super) fn finish(self) -> Done {
        self.done
    }

    /// Applies a command and queues its reply; an error fails the whole commit.
    pub(super) fn apply(
        &mut self,
        command: Command,
        sealed: Option<Result<Sealed, RecordError>>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), rusqlite::Error> {
        match command {
            Command::Record { event, change, reply } => match change {
                Some(change) => settle(reply, self.record_with(&event, &change, sealed), answers),
                None => settle(reply, self.record(&event), answers),
            },
            Command::Change { change, reply } => settle(reply, self.change(&change, sealed), answers),
            Command::Alias { reply, .. } => settle(reply, self.alias(sealed), answers),
            Command::Resume { execution, to, reply } => settle(reply, self.resume(execution, to), answers),
            Command::Spare { session, lease, reply } => settle(reply, self.spare(session, lease).map(Ok), answers),
            Command::Forget {
                session,
                execution: None,
                reply,
            } => settle(reply, keeping::forget(self.connection, session), answers),
            Command::Forget {
                session,
                execution: Some(execution),
                reply,
            } => settle(reply, self.forget_one(session, execution), answers),
            Command::Answer { id, shown, said, reply } => {
                settle(reply, asking::take(self.connection, id, shown, &said, sealed), answers)
            }
            Command::Settle { id, state, reply } => {
                settle(reply, asking::settle(self.connection, id, state).map(Ok), answers)
            }
            Command::Open { opening, lease, reply } => settle(reply, self.open(&opening, lease), answers),
            Command::Adopt {
                session,
                from,
                to,
                reply,
            } => settle(reply, self.adopt(session, from, to), answers),
            Command::Enter { session, to, reply } => settle(reply, self.enter(session, to), answers),
            Command::Park { session, reply } => settle(reply, self.park(session), answers),
            Command::Counted {
                session,
                bytes,
                files,
                reply,
            } => settle(
                reply,
                working::counted(self.connection, session, bytes, files).map(Ok),
                answers,
            ),
            Command::Release { session, reply } => settle(reply, self.release(session), answers),
            Command::Claim { claim, lease, reply } => {
                settle(reply, claiming::claim(self.connection, &claim, lease), answers)
            }
            Command::Reclaim {
                execution,
                from,
                to,
                reply,
            } => {
                let taken = claiming::reclaim(self.connection, execution, from, to);
                settle(reply, taken.map(Ok), answers)
            }
            Command::Keep {
                session,
                policy,
                json,
                reply,
            } => {
                let kept = project::keep(self.connection, session, &policy, &json);
                settle(reply, kept.map(Ok), answers)
            }
            Command::Stop { target, by, reply } => settle(reply, self.stop(target, by), answers),
            Command::Prune { what, reply } => settle(reply, self.prune(what), answers),
            Command::CatchUp { reply } => settle(reply, Ok(Ok(())), answers),
            Command::Close { .. } => Ok(()),
        }
    }

    pub(super) fn chain(&self, session: SessionId) -> Option<Chain> {
        match self.done.changed.get(&session) {
            Some(changed) => *changed,
            None => self.owned.get(&session).copied(),
        }
    }

    fn record(&mut self, event: &Event) -> Step<Recorded> {
        let session = event.session;
        if let Err(error) = self.hear(event)? {
            return Ok(Err(error));
        }
        match self.chain(session) {
            Some(chain) => self.append(chain, event),
            // An event outside any opened session, such as a refusal or a sweep, is a chain of its own.
            None if event.kind.stands_alone() => {
                let record = match Link::start(session).next(event) {
                    Ok(record) => self.insert(record)?,
                    Err(error) => Err(unwritable(error)),
                };
                let record = match record {
                    Ok(record) => record,
                    Err(RecordError::Forked { .. }) => {
                        return Ok(Err(RecordError::NotOwned { session }));
                    }
                    Err(error) => return Ok(Err(error)),
                };
                self.sign(record.link(), HeadState::Closed)?;
                Ok(Ok(self.keep(record)))
            }
            None => Ok(Err(self.absent(session)?)),
        }
    }

    /// The error for a session that this process does not own.
    pub(super) fn absent(&mut self, session: SessionId) -> Result<RecordError, rusqlite::Error> {
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

    pub(super) fn append(&mut self, chain: Chain, event: &Event) -> Step<Recorded> {
        let (record, after) = match chain.next(event) {
            Ok(next) => next,
            Err(error) => return Ok(Err(error)),
        };
        let record = match self.insert(record)? {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        project::apply(self.connection, event)?;
        let closed = matches!(event.kind, Kind::SessionClosed { .. });
        if event.kind.is_signed() {
            let state = if closed {
                HeadState::Closed
            } else {
                HeadState::Checkpoint
            };
            self.sign(record.link(), state)?;
        }
        if matches!(event.kind, Kind::ExecutionEnded { .. }) {
            self.done.over.extend(event.execution);
        }
        self.done.changed.insert(event.session, (!closed).then_some(after));
        Ok(Ok(self.keep(record)))
    }

    fn keep(&mut self, record: Record) -> Recorded {
        let recorded = Recorded {
            seq: record.seq,
            hash: record.hash,
        };
        self.done.records.push(record);
        recorded
    }

    fn insert(&mut self, record: Record) -> Step<Record> {
        let inserted = self
            .connection
            .prepare_cached(INSERT)?
            .execute(params_from_iter(values(&record)));
        match inserted {
            Ok(_) => Ok(Ok(record)),
            Err(error) if Trouble::of_write(&error) == Trouble::Taken => Ok(Err(RecordError::Forked {
                session: record.session,
                seq: record.seq,
            })),
            Err(error) => Err(error),
        }
    }

    /// Appends a signed head. The write lock is held, so the last known head is the newest.
    fn sign(&mut self, link: Link, state: HeadState) -> Result<(), rusqlite::Error> {
        let last = match self.done.mark {
            Some(mark) => mark,
            None => last_head(self.connection)?,
        };
        let signed_head = self.signer.sign(Head {
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
                signed(head.n),
                head.prev.as_bytes(),
                head.session.to_string(),
                signed(head.seq),
                head.record.as_bytes(),
                head.state == HeadState::Closed,
                signed_head.signature
            ])?;
        self.done.mark = Some(Mark::after(head));
        Ok(())
    }

    fn open(&mut self, opening: &Opening, lease: LeaseId) -> Step<Recorded> {
        let event = opening.event();
        let session = event.session;
        if self.chain(session).is_some() {
            return Ok(Err(RecordError::Forked { session, seq: 1 }));
        }
        let name = opening.keeping.as_ref().and_then(|keeping| keeping.name.as_deref());
        if let Some(other) = working::named(self.connection, opening.principal, name)? {
            // Another process opened a session with this name first.
            return Ok(Err(RecordError::NotOwned { session: other }));
        }
        let record = match Link::start(session).next(&event) {
            Ok(record) => self.insert(record)?,
            Err(error) => Err(unwritable(error)),
        };
        let record = match record {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        project::open(self.connection, opening, lease, &event)?;
        chain::limit(self.connection, session, opening.journal_bytes)?;
        let chain = Chain {
            link: record.link(),
            lease,
            durable: opening.durable,
            at: event.at,
            bytes: record.json.len() as u64,
            sealed: 0,
            limit: opening.journal_bytes,
        };
        self.done.changed.insert(session, Some(chain));
        Ok(Ok(self.keep(record)))
    }

    pub(super) fn adopt(&mut self, session: SessionId, from: Option<LeaseId>, to: LeaseId) -> Step<(), AdoptError> {
        let row = self
            .connection
            .prepare_cached("SELECT state, lease, durable, coalesce(journal_bytes, ?2) FROM sessions WHERE id = ?1")?
            .query_row((session.to_string(), signed(SESSION_BYTES)), |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    maybe::<LeaseId>(row, 1)?,
                    number(row, 2)? != 0,
                    number(row, 3)?,
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
        working::taken(self.connection, &session.to_string())?;
        let chain = Chain::read(self.connection, session, (to, durable, limit))?;
        self.done.changed.insert(session, Some(chain));
        Ok(Ok(()))
    }

    pub(super) fn release(&mut self, session: SessionId) -> Step<()> {
        if self.chain(session).is_none() {
            return Ok(Err(RecordError::NotOwned { session }));
        }
        self.connection
            .prepare_cached("UPDATE sessions SET lease = NULL WHERE id = ?")?
            .execute([session.to_string()])?;
        self.done.changed.insert(session, None);
        Ok(Ok(()))
    }

    /// Removes a part of the old records and records what is removed.
    fn prune(&mut self, what: Prune) -> Step<Pruned> {
        self.connection.execute_batch("SAVEPOINT prune")?;
        let removed = match pruning::remove(self.connection, what)? {
            Some((event, pruned)) => self.record(&event)?.map(|_| pruned),
            None => Ok(Pruned::default()),
        };
        if removed.is_err() {
            // Nothing is removed without a record of it.
            self.connection.execute_batch("ROLLBACK TO prune")?;
        }
        self.connection.execute_batch("RELEASE prune")?;
        Ok(removed)
    }

    fn stop(&mut self, target: Target, by: Principal) -> Step<Vec<(SessionId, Option<LeaseId>)>> {
        project::stop(self.connection, target, by).map(Ok)
    }
}

/// Queues the reply of a catch-up command, which has succeeded by now.
pub(super) fn caught_up(command: Command, answers: &mut Vec<Answer>) {
    if let Command::CatchUp { reply } = command {
        answer(reply, Ok(()), answers);
    }
}

/// Queues the reply of a command after a failure: it gets the error of that failure.
pub(super) fn skip(command: Command, answers: &mut Vec<Answer>) {
    let ended = RecordError::Ended;
    match command {
        Command::Record { reply, .. } | Command::Open { reply, .. } => answer(reply, Err(ended), answers),
        Command::Adopt { reply, .. } | Command::Resume { reply, .. } | Command::Enter { reply, .. } => {
            answer(reply, Err(ended.into()), answers);
        }
        Command::Change { reply, .. }
        | Command::Alias { reply, .. }
        | Command::Forget { reply, .. }
        | Command::Park { reply, .. }
        | Command::Counted { reply, .. }
        | Command::Release { reply, .. }
        | Command::Keep { reply, .. }
        | Command::CatchUp { reply } => answer(reply, Err(ended), answers),
        Command::Spare { reply, .. } | Command::Reclaim { reply, .. } => answer(reply, Err(ended), answers),
        Command::Answer { reply, .. } => answer(reply, Err(ended), answers),
        Command::Settle { reply, .. } => answer(reply, Err(ended), answers),
        Command::Claim { reply, .. } => answer(reply, Err(ended), answers),
        Command::Stop { reply, .. } => answer(reply, Err(ended), answers),
        Command::Prune { reply, .. } => answer(reply, Err(ended), answers),
        Command::Close { .. } => {}
    }
}

fn settle<T: Send + 'static, E: From<RecordError> + Send + 'static>(
    reply: Reply<T, E>,
    step: Step<T, E>,
    answers: &mut Vec<Answer>,
) -> Result<(), rusqlite::Error> {
    let (result, outcome) = match step {
        Ok(result) => (result, Ok(())),
        Err(error) => (Err(RecordError::Ended.into()), Err(error)),
    };
    answer(reply, result, answers);
    outcome
}

pub(super) fn answer<T: Send + 'static, E: From<RecordError> + Send + 'static>(
    reply: Reply<T, E>,
    result: Result<T, E>,
    answers: &mut Vec<Answer>,
) {
    answers.push(Box::new(move |failed| {
        // The caller may have stopped waiting; the commit stays valid.
        let _ = reply.send(match failed {
            Some(error) => Err(error.into()),
            None => result,
        });
    }));
}

fn unwritable(error: EventError) -> RecordError {
    RecordError::Event {
        source: Arc::new(error),
    }
}

/// The column values of a record, in the order of the insert statement.
pub(super) fn values(record: &Record) -> [ToSqlOutput<'_>; 5] {
    [
        record.session.to_string().into(),
        signed(record.seq).into(),
        record.prev.as_bytes().as_slice().into(),
        record.json.as_str().into(),
        record.hash.as_bytes().as_slice().into(),
    ]
}

/// The mark of the last signed head.
pub(crate) fn last_head(connection: &Connection) -> Result<Mark, rusqlite::Error> {
    let head = connection
        .prepare_cached("SELECT n, prev, session, seq, record, closed FROM heads ORDER BY n DESC LIMIT 1")?
        .query_row([], head_row)
        .optional()?;
    Ok(head.map_or_else(Mark::start, |head| Mark::after(&head)))
}

/// Reads a head from its row, without the signature.
pub(crate) fn head_row(row: &Row<'_>) -> Result<Head, rusqlite::Error> {
    Ok(Head {
        n: number(row, 0)?,
        prev: digest(row, 1)?,
        session: parsed(row, 2)?,
        seq: number(row, 3)?,
        record: digest(row, 4)?,
        state: if number(row, 5)? == 0 {
            HeadState::Checkpoint
        } else {
            HeadState::Closed
        },
    })
}

/// Writes the only record of a session that was never opened, and its head; returns the mark of that head. The caller holds the write lock,
/// commits, and moves the mark.
pub(crate) fn record_alone(connection: &Connection, signer: &Signer, event: &Event) -> Step<Mark> {
    let owned = HashMap::new();
    let mut batch = Batch::new(connection, signer, &owned);
    if let Err(error) = batch.record(event)? {
        return Ok(Err(error));
    }
    let session = event.session;
    Ok(batch.done.mark.ok_or(RecordError::NotOwned { session }))
}
