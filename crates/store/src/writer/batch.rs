//! One commit: each command in turn gets its place in a chain and is written.

use std::collections::HashMap;
use std::sync::Arc;

use ringfence_journal::{
    Event, Head, HeadState, Kind, LeaseId, Link, Mark, Principal, Record, RecordError, Recorded, SessionId, Signer,
};
use sqlx::{Row as _, SqliteConnection};

use super::{Answer, Chain, Command, Reply, project};
use crate::database::{Trouble, signed};
use crate::session::{AdoptError, Opening};
use crate::stop::Target;

/// What a command came to, unless the database itself failed, which fails the whole commit.
type Step<T, E = RecordError> = Result<Result<T, E>, sqlx::Error>;

/// What a commit changes, kept aside until it has succeeded.
pub(super) struct Done {
    /// New ends of chains; `None` for those that this process no longer owns.
    pub(super) changed: HashMap<SessionId, Option<Chain>>,
    /// The last head that was signed.
    pub(super) mark: Option<Mark>,
    /// What was written, in order.
    pub(super) records: Vec<Record>,
}

pub(super) struct Batch<'a> {
    connection: &'a mut SqliteConnection,
    signer: &'a Signer,
    owned: &'a HashMap<SessionId, Chain>,
    done: Done,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        connection: &'a mut SqliteConnection,
        signer: &'a Signer,
        owned: &'a HashMap<SessionId, Chain>,
    ) -> Batch<'a> {
        let done = Done {
            changed: HashMap::new(),
            mark: None,
            records: Vec::new(),
        };
        Batch {
            connection,
            signer,
            owned,
            done,
        }
    }

    pub(super) fn finish(self) -> Done {
        self.done
    }

    /// Carries out a command and keeps its answer; an error fails the whole commit.
    pub(super) async fn apply(&mut self, command: Command, answers: &mut Vec<Answer>) -> Result<(), sqlx::Error> {
        match command {
            Command::Record { event, reply } => settle(reply, self.record(&event).await, answers),
            Command::Open { opening, lease, reply } => settle(reply, self.open(&opening, lease).await, answers),
            Command::Adopt {
                session,
                from,
                to,
                reply,
            } => settle(reply, self.adopt(session, from, to).await, answers),
            Command::Release { session, reply } => settle(reply, self.release(session).await, answers),
            Command::Stop { target, by, reply } => settle(reply, self.stop(target, by).await, answers),
            Command::Close { .. } => Ok(()),
        }
    }

    fn chain(&self, session: SessionId) -> Option<Chain> {
        match self.done.changed.get(&session) {
            Some(changed) => *changed,
            None => self.owned.get(&session).copied(),
        }
    }

    async fn record(&mut self, event: &Event) -> Step<Recorded> {
        let session = event.session;
        match self.chain(session) {
            Some(chain) => self.append(chain, event).await,
            // A session refused before it opened, or what was swept for no session: a chain of one.
            None if matches!(event.kind, Kind::Refused { .. } | Kind::Swept { .. }) => {
                let record = match self.insert(Link::start(session), event).await? {
                    Ok(record) => record,
                    Err(RecordError::Forked { .. }) => {
                        return Ok(Err(RecordError::NotOwned { session }));
                    }
                    Err(error) => return Ok(Err(error)),
                };
                self.sign(record.link(), HeadState::Closed).await?;
                Ok(Ok(self.keep(record)))
            }
            None => Ok(Err(self.absent(session).await?)),
        }
    }

    /// Why a session is not ours.
    async fn absent(&mut self, session: SessionId) -> Result<RecordError, sqlx::Error> {
        let state: Option<String> = sqlx::query_scalar("SELECT state FROM sessions WHERE id = ?")
            .bind(session.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(match state.as_deref() {
            None | Some("open") => RecordError::NotOwned { session },
            Some(_) => RecordError::Closed { session },
        })
    }

    async fn append(&mut self, chain: Chain, event: &Event) -> Step<Recorded> {
        let record = match self.insert(chain.link, event).await? {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        project::apply(self.connection, event).await?;
        let closed = matches!(event.kind, Kind::SessionClosed { .. });
        if event.kind.is_signed() {
            let state = if closed {
                HeadState::Closed
            } else {
                HeadState::Checkpoint
            };
            self.sign(record.link(), state).await?;
        }
        let next = (!closed).then(|| Chain {
            link: record.link(),
            ..chain
        });
        self.done.changed.insert(event.session, next);
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

    async fn insert(&mut self, link: Link, event: &Event) -> Step<Record> {
        let record = match link.next(event) {
            Ok(record) => record,
            Err(error) => {
                return Ok(Err(RecordError::Event {
                    source: Arc::new(error),
                }));
            }
        };
        let inserted = sqlx::query("INSERT INTO events (session, seq, prev, json, hash) VALUES (?, ?, ?, ?, ?)")
            .bind(record.session.to_string())
            .bind(signed(record.seq))
            .bind(record.prev.as_bytes().as_slice())
            .bind(record.json.as_str())
            .bind(record.hash.as_bytes().as_slice())
            .execute(&mut *self.connection)
            .await;
        match inserted {
            Ok(_) => Ok(Ok(record)),
            Err(error) if Trouble::of(&error) == Trouble::Taken => Ok(Err(RecordError::Forked {
                session: record.session,
                seq: record.seq,
            })),
            Err(error) => Err(error),
        }
    }

    /// Appends a signed head. The write lock is held, so the last head is the last.
    async fn sign(&mut self, link: Link, state: HeadState) -> Result<(), sqlx::Error> {
        let last = match self.done.mark {
            Some(mark) => mark,
            None => last_head(self.connection).await?,
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
        sqlx::query(
            "INSERT INTO heads (n, prev, session, seq, record, closed, signature) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(signed(head.n))
        .bind(head.prev.as_bytes().as_slice())
        .bind(head.session.to_string())
        .bind(signed(head.seq))
        .bind(head.record.as_bytes().as_slice())
        .bind(i64::from(head.state == HeadState::Closed))
        .bind(signed_head.signature.as_slice())
        .execute(&mut *self.connection)
        .await?;
        self.done.mark = Some(Mark::after(head));
        Ok(())
    }

    async fn open(&mut self, opening: &Opening, lease: LeaseId) -> Step<Recorded> {
        let event = opening.event();
        let session = event.session;
        if self.chain(session).is_some() {
            return Ok(Err(RecordError::Forked { session, seq: 1 }));
        }
        let record = match self.insert(Link::start(session), &event).await? {
            Ok(record) => record,
            Err(error) => return Ok(Err(error)),
        };
        project::open(self.connection, opening, lease, &event).await?;
        let chain = Chain {
            link: record.link(),
            durable: opening.durable,
        };
        self.done.changed.insert(session, Some(chain));
        Ok(Ok(self.keep(record)))
    }

    async fn adopt(&mut self, session: SessionId, from: Option<LeaseId>, to: LeaseId) -> Step<(), AdoptError> {
        let row = sqlx::query("SELECT state, lease, durable FROM sessions WHERE id = ?")
            .bind(session.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(row) = row else {
            return Ok(Err(AdoptError::Unknown { session }));
        };
        let owner: Option<String> = row.try_get("lease")?;
        // A sweep that died half way leaves a session that is lost, but still has its lease.
        if row.try_get::<&str, _>("state")? != "open" && owner.is_none() {
            return Ok(Err(AdoptError::Closed { session }));
        }
        if owner != from.map(|lease| lease.to_string()) {
            return Ok(Err(AdoptError::Owned { session }));
        }
        let durable = row.try_get::<i64, _>("durable")? != 0;
        sqlx::query("UPDATE sessions SET lease = ? WHERE id = ?")
            .bind(to.to_string())
            .bind(session.to_string())
            .execute(&mut *self.connection)
            .await?;
        let link = last_record(self.connection, session).await?;
        self.done.changed.insert(session, Some(Chain { link, durable }));
        Ok(Ok(()))
    }

    async fn release(&mut self, session: SessionId) -> Step<()> {
        if self.chain(session).is_none() {
            return Ok(Err(RecordError::NotOwned { session }));
        }
        sqlx::query("UPDATE sessions SET lease = NULL WHERE id = ?")
            .bind(session.to_string())
            .execute(&mut *self.connection)
            .await?;
        self.done.changed.insert(session, None);
        Ok(Ok(()))
    }

    async fn stop(&mut self, target: Target, by: Principal) -> Step<Vec<(SessionId, Option<LeaseId>)>> {
        project::stop(self.connection, target, by).await.map(Ok)
    }
}

/// Keeps the answer of a command that comes after a failure: it will be that failure.
pub(super) fn skip(command: Command, answers: &mut Vec<Answer>) {
    match command {
        Command::Record { reply, .. } | Command::Open { reply, .. } => {
            answer(reply, Err(RecordError::Ended), answers);
        }
        Command::Adopt { reply, .. } => answer(reply, Err(RecordError::Ended.into()), answers),
        Command::Release { reply, .. } => answer(reply, Err(RecordError::Ended), answers),
        Command::Stop { reply, .. } => answer(reply, Err(RecordError::Ended), answers),
        Command::Close { .. } => {}
    }
}

fn settle<T: Send + 'static, E: From<RecordError> + Send + 'static>(
    reply: Reply<T, E>,
    step: Step<T, E>,
    answers: &mut Vec<Answer>,
) -> Result<(), sqlx::Error> {
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
        // Whoever asked may have stopped waiting; what is written stays written.
        let _ = reply.send(match failed {
            Some(error) => Err(error.into()),
            None => result,
        });
    }));
}

async fn last_head(connection: &mut SqliteConnection) -> Result<Mark, sqlx::Error> {
    let row = sqlx::query("SELECT n, prev, session, seq, record, closed FROM heads ORDER BY n DESC LIMIT 1")
        .fetch_optional(connection)
        .await?;
    match row {
        None => Ok(Mark::start()),
        Some(row) => crate::check::head(&row)
            .map(|head| Mark::after(&head))
            .map_err(|error| sqlx::Error::Decode(Box::new(error))),
    }
}

async fn last_record(connection: &mut SqliteConnection, session: SessionId) -> Result<Link, sqlx::Error> {
    let row =
        sqlx::query("SELECT session, seq, prev, json, hash FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1")
            .bind(session.to_string())
            .fetch_optional(connection)
            .await?;
    match row {
        None => Ok(Link::start(session)),
        Some(row) => crate::audit::record(&row)
            .map(|record| record.link())
            .map_err(|error| sqlx::Error::Decode(Box::new(error))),
    }
}
