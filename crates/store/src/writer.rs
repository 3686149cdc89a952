//! The one writer of this process: takes whatever waits, commits once, answers all.
//!
//! The ends of the chains move forward in memory only after the commit; when it fails, every
//! caller gets the error and nothing has happened.

use std::collections::HashMap;

use ringfence_journal::{Event, LeaseId, Link, Principal, RecordError, Recorded, SessionId, Signer};
use sqlx::{Executor as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::database::{self, Trouble, record_error};
use crate::home::Home;
use crate::session::{AdoptError, Opening};
use crate::sink::Sinks;
use crate::stop::Target;

mod batch;
mod plain;
mod project;

use batch::Batch;
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

pub(crate) struct Writer {
    connection: SqliteConnection,
    home: Home,
    signer: Signer,
    sinks: Sinks,
    owned: HashMap<SessionId, Chain>,
    sync: Sync,
}

impl Writer {
    pub(crate) fn new(connection: SqliteConnection, home: Home, signer: Signer, sinks: Sinks) -> Writer {
        Writer {
            connection,
            home,
            signer,
            sinks,
            owned: HashMap::new(),
            sync: Sync::Log,
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
                self.write(commands).await;
            }
        }
        match last {
            Ending::Fold => database::close(self.connection).await,
            // Dropping it would fold too; the process ends now, and its descriptors with it.
            Ending::Leave => std::mem::forget(self.connection),
        }
        self.sinks.finish().await;
        for reply in closing {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(());
        }
    }

    async fn write(&mut self, commands: Vec<Command>) {
        let sync = if commands.iter().any(|command| self.is_durable(command)) {
            Sync::Disk
        } else {
            Sync::Log
        };
        let mut answers = Vec::with_capacity(commands.len());
        let outcome = match Plain::of(&commands, &self.owned) {
            Some(plain) => self.commit_plain(plain, commands, sync, &mut answers).await,
            None => self.commit(commands, sync, &mut answers).await,
        };
        match outcome {
            Ok(()) => {
                for answer in answers {
                    answer(None);
                }
            }
            Err(error) => {
                let error = record_error(error);
                tracing::error!(code = error.code(), %error, events = answers.len(), "nothing was written");
                for answer in answers {
                    answer(Some(error.clone()));
                }
            }
        }
    }

    fn is_durable(&self, command: &Command) -> bool {
        match command {
            Command::Record { event, .. } => self.owned.get(&event.session).is_some_and(|chain| chain.durable),
            Command::Open { opening, .. } => opening.durable,
            Command::Adopt { .. } | Command::Release { .. } | Command::Stop { .. } | Command::Close { .. } => false,
        }
    }

    /// Commits what only adds to chains, in one step.
    async fn commit_plain(
        &mut self,
        plain: Plain,
        commands: Vec<Command>,
        sync: Sync,
        answers: &mut Vec<Answer>,
    ) -> Result<(), sqlx::Error> {
        let mut outcome = self.level(sync).await;
        if outcome.is_ok() {
            outcome = plain.insert(&mut self.connection).await;
        }
        match outcome {
            Ok(()) => {
                plain.settle(commands, answers);
                self.owned.extend(plain.changed);
                self.sinks.feed(&plain.records);
                Ok(())
            }
            // Somebody else wrote to one of the chains: one by one, the others are still written.
            Err(error) if Trouble::of(&error) == Trouble::Taken => self.commit(commands, sync, answers).await,
            Err(error) => {
                for command in commands {
                    batch::skip(command, answers);
                }
                Err(error)
            }
        }
    }

    async fn commit(
        &mut self,
        commands: Vec<Command>,
        sync: Sync,
        answers: &mut Vec<Answer>,
    ) -> Result<(), sqlx::Error> {
        let prepared = self.prepare(sync).await;
        let mut batch = Batch::new(&mut self.connection, &self.signer, &self.owned);
        let mut outcome = prepared;
        for command in commands {
            if outcome.is_ok() {
                outcome = batch.apply(command, answers).await;
            } else {
                batch::skip(command, answers);
            }
        }
        let done = batch.finish();
        match outcome {
            Ok(()) => {
                if let Err(error) = self.connection.execute("COMMIT").await {
                    self.roll_back().await;
                    return Err(error);
                }
            }
            Err(error) => {
                self.roll_back().await;
                return Err(error);
            }
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
        self.sinks.feed(&done.records);
        Ok(())
    }

    async fn prepare(&mut self, sync: Sync) -> Result<(), sqlx::Error> {
        self.level(sync).await?;
        self.connection.execute("BEGIN IMMEDIATE").await.map(drop)
    }

    /// Makes the next commits go as far as `sync`.
    async fn level(&mut self, sync: Sync) -> Result<(), sqlx::Error> {
        if self.sync != sync {
            let pragma = match sync {
                Sync::Log => "PRAGMA synchronous = NORMAL",
                Sync::Disk => "PRAGMA synchronous = FULL",
            };
            self.connection.execute(pragma).await?;
            self.sync = sync;
        }
        Ok(())
    }

    /// Some failures end the transaction by themselves; then there is nothing to roll back.
    async fn roll_back(&mut self) {
        if let Err(error) = self.connection.execute("ROLLBACK").await {
            tracing::debug!(%error, "no transaction was left to roll back");
        }
    }
}
