//! The one writer of this process: takes whatever waits, commits once, answers all.
//!
//! The ends of the chains move forward in memory only after the commit; when it fails, every
//! caller gets the error and nothing has happened.
//!
//! A commit to the log takes some ten microseconds, less than the way to another thread and back: it is done in the
//! writer's own task. What waits, for the disk or for another process, waits on a thread that may.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{Event, LeaseId, Link, PolicyRef, Principal, RecordError, Recorded, SessionId, Signer};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use crate::database::{Trouble, record_error, signed};
use crate::home::Home;
use crate::open::Opened;
use crate::session::{AdoptError, Opening};
use crate::sink::{Sinks, Taking, Tally};
use crate::stop::Target;

mod batch;
mod fold;
mod plain;
mod project;
mod row;

use batch::Batch;
use fold::{Fold, Need};
use plain::Plain;

/// The most commands in one commit: bounds how long the write lock is held.
const MOST: usize = 256;

pub(crate) type Reply<T, E = RecordError> = oneshot::Sender<Result<T, E>>;

/// What the writer can be asked.
pub(crate) enum Command {
    /// Write an event of a session that this process owns.
    Record { event: Box<Event>, reply: Reply<Recorded> },
    /// Make a session, with its first event.
    Open {
        opening: Box<Opening>,
        lease: LeaseId,
        reply: Reply<Recorded>,
    },
    /// Go on with a session that belongs to nobody, or to a lease whose lock is held.
    Adopt {
        session: SessionId,
        from: Option<LeaseId>,
        to: LeaseId,
        reply: Reply<(), AdoptError>,
    },
    /// Leave a session to whoever wants it next.
    Release { session: SessionId, reply: Reply<()> },
    /// A policy is kept, by its digest.
    Keep {
        policy: PolicyRef,
        json: String,
        reply: Reply<()>,
    },
    /// Write down that sessions should stop; answers with their leases.
    Stop {
        target: Target,
        by: Principal,
        reply: Reply<Vec<(SessionId, Option<LeaseId>)>>,
    },
    /// Write what waits, and end.
    Close { ending: Ending, reply: oneshot::Sender<()> },
}

/// What becomes of the database's log at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is folded into the database, which waits for the disk.
    Fold,
    /// It stays for whoever opens the database next.
    Leave,
}

/// The end of a chain that this process owns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    link: Link,
    /// Commits of this session reach the disk before they are answered.
    durable: bool,
}

/// What a caller is told once the commit is known to have succeeded (`None`) or failed.
type Answer = Box<dyn FnOnce(Option<RecordError>) + Send>;

/// How far a commit goes before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// To the log: survives the end of the process.
    Log,
    /// To the disk: survives the end of the power.
    Disk,
}

/// Whether a commit may wait for one of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// On a thread that may wait.
    Allowed,
    /// In a task, where others would wait too.
    Never,
}

/// What became of some commands.
enum Written {
    /// All were answered, or will be.
    Answered,
    /// Another process is writing: nothing has happened.
    Locked(Vec<Command>),
}

/// What became of a commit.
enum Committed {
    /// It is done; sinks that must have its records get them.
    Done(Taking),
    /// Another process is writing: nothing has happened.
    Locked(Vec<Command>),
}

pub(crate) struct Writer {
    connection: Connection,
    home: Home,
    signer: Signer,
    sinks: Sinks,
    owned: HashMap<SessionId, Chain>,
    sync: Sync,
    patience: Duration,
    fold: Fold,
}

impl Writer {
    pub(crate) fn new(opened: Opened, sinks: Sinks) -> Writer {
        let Opened {
            home,
            connection,
            signer,
            patience,
        } = opened;
        Writer {
            fold: Fold::of(home.database(), &connection),
            connection,
            home,
            signer,
            sinks,
            owned: HashMap::new(),
            sync: Sync::Log,
            patience,
        }
    }

    /// Writes until every sender is gone or one asked to close.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut waiting = Vec::with_capacity(MOST);
        let mut closing = Vec::new();
        let mut last = Ending::Fold;
        while inbox.recv_many(&mut waiting, MOST).await > 0 {
            let mut commands = Vec::with_capacity(waiting.len());
            for command in waiting.drain(..) {
                if let Command::Close { ending, reply } = command {
                    inbox.close();
                    last = ending;
                    closing.push(reply);
                } else {
                    commands.push(command);
                }
            }
            if !commands.is_empty() {
                self = match self.take(commands).await {
                    Ok(writer) => writer,
                    // Whoever waits is told that the writer is gone.
                    Err(error) => return tracing::error!(%error, "the writer broke off"),
                };
            }
        }
        self.end(last).await;
        for reply in closing {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(());
        }
    }

    async fn end(mut self, ending: Ending) {
        let tallies = self.sinks.finish().await;
        if let Err(error) = self.connection.busy_timeout(self.patience) {
            tracing::debug!(%error, "the database does not wait");
        }
        note_missed(&self.connection, tallies.iter());
        match ending {
            Ending::Fold => {
                self.fold.settle().await;
                let connection = self.connection;
                let closed = tokio::task::spawn_blocking(|| connection.close().map_err(|(_, error)| error)).await;
                if let Ok(Err(error)) = closed {
                    tracing::warn!(%error, "the database did not close cleanly");
                }
            }
            // Dropping it would fold too; the process ends now, and its descriptors with it.
            Ending::Leave => std::mem::forget(self.connection),
        }
    }

    /// Writes here what is quick, elsewhere what may wait.
    async fn take(mut self, mut commands: Vec<Command>) -> Result<Writer, JoinError> {
        let sync = if commands.iter().any(|command| self.is_durable(command)) {
            Sync::Disk
        } else {
            Sync::Log
        };
        let need = self.fold.need();
        if need == Need::First {
            self.fold.settle().await;
        }
        if sync == Sync::Log && need != Need::First {
            match self.write(commands, sync, Wait::Never) {
                Written::Answered => {
                    if self.fold.need() == Need::Beside {
                        self.fold.beside();
                    }
                    return Ok(self);
                }
                Written::Locked(again) => commands = again,
            }
        }
        tokio::task::spawn_blocking(move || {
            if need == Need::First {
                self.fold.first(&self.connection);
            }
            self.write(commands, sync, Wait::Allowed);
            self
        })
        .await
    }

    fn write(&mut self, commands: Vec<Command>, sync: Sync, wait: Wait) -> Written {
        let mut answers = Vec::with_capacity(commands.len());
        let outcome = match self.begin(sync, wait) {
            Ok(()) => match Plain::of(&commands, &self.owned) {
                Some(plain) => self.commit_plain(plain, commands, wait, &mut answers),
                None => self.commit(commands, wait, &mut answers),
            },
            Err(error) => {
                skip_all(commands, &mut answers);
                Err(error)
            }
        };
        self.fold.look();
        match outcome {
            Ok(Committed::Done(taking)) => {
                reply(answers, taking);
                note_missed(&self.connection, self.sinks.tallies());
            }
            Ok(Committed::Locked(again)) => return Written::Locked(again),
            Err(error) => {
                let error = record_error(error);
                tracing::error!(code = error.code(), %error, events = answers.len(), "nothing was written");
                for answer in answers {
                    answer(Some(error.clone()));
                }
            }
        }
        Written::Answered
    }

    fn is_durable(&self, command: &Command) -> bool {
        match command {
            Command::Record { event, .. } => self.owned.get(&event.session).is_some_and(|chain| chain.durable),
            Command::Open { opening, .. } => opening.durable,
            Command::Adopt { .. }
            | Command::Release { .. }
            | Command::Keep { .. }
            | Command::Stop { .. }
            | Command::Close { .. } => false,
        }
    }

    /// Makes the next commits go as far as `sync`, and wait as `wait` says.
    fn begin(&mut self, sync: Sync, wait: Wait) -> Result<(), rusqlite::Error> {
        self.connection.busy_timeout(match wait {
            Wait::Allowed => self.patience,
            Wait::Never => Duration::ZERO,
        })?;
        if self.sync != sync {
            self.connection.execute_batch(match sync {
                Sync::Log => "PRAGMA synchronous = NORMAL",
                Sync::Disk => "PRAGMA synchronous = FULL",
            })?;
            self.sync = sync;
        }
        Ok(())
    }

    /// Commits what only adds to chains, in one step.
    fn commit_plain(
        &mut self,
        plain: Plain,
        commands: Vec<Command>,
        wait: Wait,
        answers: &mut Vec<Answer>,
    ) -> Result<Committed, rusqlite::Error> {
        match plain.insert(&self.connection) {
            Ok(()) => {
                plain.settle(commands, answers);
                self.owned.extend(plain.changed);
                Ok(Committed::Done(self.sinks.feed(&plain.records)))
            }
            Err(error) => match Trouble::of_write(&error) {
                Trouble::Locked if wait == Wait::Never => Ok(Committed::Locked(commands)),
                // Somebody else wrote to one of the chains: one by one, the others are still written.
                Trouble::Taken => self.commit(commands, wait, answers),
                Trouble::Locked | Trouble::Full | Trouble::Damaged | Trouble::Other => {
                    skip_all(commands, answers);
                    Err(error)
                }
            },
        }
    }

    fn commit(
        &mut self,
        commands: Vec<Command>,
        wait: Wait,
        answers: &mut Vec<Answer>,
    ) -> Result<Committed, rusqlite::Error> {
        let mut outcome = match self.connection.execute_batch("BEGIN IMMEDIATE") {
            Err(error) if wait == Wait::Never && Trouble::of_write(&error) == Trouble::Locked => {
                return Ok(Committed::Locked(commands));
            }
            begun => begun,
        };
        let mut batch = Batch::new(&self.connection, &self.signer, &self.owned);
        for command in commands {
            if outcome.is_ok() {
                outcome = batch.apply(command, answers);
            } else {
                batch::skip(command, answers);
            }
        }
        let done = batch.finish();
        if let Err(error) = outcome.and_then(|()| self.connection.execute_batch("COMMIT")) {
            self.roll_back();
            return Err(error);
        }
        for (session, chain) in done.changed {
            match chain {
                Some(chain) => self.owned.insert(session, chain),
                None => self.owned.remove(&session),
            };
        }
        if let Some(mark) = done.mark {
            // The heads are committed; a mark that lags only shows less.
            if let Err(error) = self.home.advance_mark(mark) {
                tracing::warn!(%error, "the mark beside the signing key did not move");
            }
        }
        Ok(Committed::Done(self.sinks.feed(&done.records)))
    }

    /// Some failures end the transaction by themselves; then there is nothing to roll back.
    fn roll_back(&mut self) {
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::debug!(%error, "no transaction was left to roll back");
        }
    }
}

/// Tells whoever asked, once the sinks that must have the records took them.
fn reply(answers: Vec<Answer>, taking: Taking) {
    if taking.is_empty() {
        return answers.into_iter().for_each(|answer| answer(None));
    }
    // The next commit does not wait for this one's sinks.
    tokio::spawn(async move {
        let failed = taking.all().await.err();
        if let Some(error) = &failed {
            tracing::error!(code = error.code(), %error, events = answers.len(), "nothing happens without the sink");
        }
        for answer in answers {
            answer(failed.clone());
        }
    });
}

/// Keeps what sinks missed for whoever looks at the journal; what cannot be kept now is kept with the next commit.
fn note_missed<'a>(connection: &Connection, tallies: impl Iterator<Item = &'a Arc<Tally>>) {
    for tally in tallies {
        let Some((count, reason)) = tally.unsaid() else {
            continue;
        };
        let now = jiff::Timestamp::now().to_string();
        let noted = connection.execute(
            "INSERT INTO undelivered (sink, records, since, last, reason) VALUES (?1, ?2, ?3, ?3, ?4)
                ON CONFLICT (sink) DO UPDATE SET records = records + ?2, last = ?3, reason = ?4",
            rusqlite::params![tally.name, signed(count), now, reason],
        );
        if let Err(error) = noted {
            tracing::warn!(%error, sink = tally.name, "what a sink missed is not written down yet");
            tally.still_unsaid(count);
        }
    }
}

/// Keeps the answers of commands that were not tried: they will be the failure.
fn skip_all(commands: Vec<Command>, answers: &mut Vec<Answer>) {
    for command in commands {
        batch::skip(command, answers);
    }
}
