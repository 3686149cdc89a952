//! The journal writer of this process: takes the queued commands, commits once and replies to all callers.
//!
//! The chain tips in memory move only after the commit; if it fails, every caller gets the error and nothing has changed. Events that only
//! append to their chains are answered as soon as the write-ahead file has them, and committed with others a little later: before anything
//! else is written, and before this process reads.
//!
//! A commit to the log takes about ten microseconds, less than a switch to another thread and back, so it runs in the writer's own task.
//! Work that waits for the disk or for another process runs on a blocking thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{LeaseId, Mark, RecordError, SessionId, Signer};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use crate::database::{Trouble, record_error, signed};
use crate::home::{DatabaseFile, Home};
use crate::loss::Loss;
use crate::open::Opened;
use crate::seal::Seals;
use crate::sink::{Sinks, Taking, Tally};

mod ahead;
mod asking;
mod batch;
mod chain;
mod claiming;
mod command;
mod fold;
mod guard;
mod keeping;
pub(crate) mod pieces;
mod plain;
mod project;
mod pruning;
mod row;
mod sealing;
mod working;

pub(crate) use ahead::Behind;
use ahead::{Ahead, Due, Went};
use batch::Batch;
pub(crate) use batch::{head_row, last_head, record_alone};
use chain::Chain;
pub(crate) use chain::last_record;
pub(crate) use command::{Change, Command, Reply};
use fold::{Fold, Need};
use plain::Plain;
pub(crate) use sealing::Piece;
use sealing::{AllSealed, Sealer};

/// The most commands in one commit; bounds how long the write lock is held.
const MOST: usize = 256;

/// What happens to the database's log at shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is checkpointed into the database, which waits for the disk.
    Fold,
    /// It stays for the next process that opens the database.
    Leave,
}

/// The callback of one caller: gets `None` after a successful commit, else the error.
type Answer = Box<dyn FnOnce(Option<RecordError>) + Send>;

/// How durable a commit is before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// It reaches the log: survives a crash of the process.
    Log,
    /// It reaches the disk: survives a power failure.
    Disk,
}

/// Whether a commit may wait for another process's commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The commit runs on a blocking thread.
    Allowed,
    /// The commit runs in a task, where other tasks would wait too.
    Never,
}

/// The outcome of a group of commands.
enum Written {
    /// All are answered, or will be after the commit.
    Answered,
    /// Another process holds the write lock: nothing has changed.
    Locked(Vec<Command>),
}

/// The outcome of a commit.
enum Committed {
    /// The commit succeeded; durable sinks still have to accept its records.
    Done(Taking),
    /// Another process holds the write lock: nothing has changed.
    Locked(Vec<Command>),
    /// The journal refuses to be written, for this reason.
    Refused(RecordError),
}

pub(crate) struct Writer {
    connection: Connection,
    home: Home,
    signer: Signer,
    sinks: Sinks,
    owned: HashMap<SessionId, Chain>,
    sealer: Sealer,
    sync: Sync,
    patience: Duration,
    fold: Fold,
    ahead: Ahead,
    /// The identity of the database file.
    file: Option<DatabaseFile>,
    /// The loss found in the journal; while there is one, nothing is written.
    lost: Option<Loss>,
    /// A signed head whose mark could not be written: nothing more is signed before it is.
    unmarked: Option<Mark>,
}

impl Writer {
    pub(crate) fn new(opened: Opened, sinks: Sinks, seals: Seals, behind: Behind) -> Writer {
        let Opened {
            home,
            connection,
            signer,
            patience,
            file,
            lost,
        } = opened;
        Writer {
            fold: Fold::of(home.clone(), &connection),
            ahead: Ahead::new(home.run(), behind),
            sealer: Sealer::new(seals),
            connection,
            home,
            signer,
            sinks,
            owned: HashMap::new(),
            sync: Sync::Log,
            patience,
            file,
            lost,
            unmarked: None,
        }
    }

    /// Runs until every sender is gone or a command closes the writer.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut waiting = Vec::with_capacity(MOST);
        let mut closing = Vec::new();
        let mut last = Ending::Fold;
        while next(self.ahead.due(), &mut inbox, &mut waiting).await > 0 {
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
                    // Waiting callers see their reply channel close.
                    Err(error) => return tracing::error!(%error, "the writer broke off"),
                };
            }
        }
        self.end(last).await;
        for reply in closing {
            // The caller may have stopped waiting.
            let _ = reply.send(());
        }
    }

    /// Commits the write-ahead queue.
    fn catch_up(&mut self) -> Result<(), rusqlite::Error> {
        for session in self.ahead.commit(&self.connection)? {
            tracing::error!(%session, "somebody else went on with the chain of a session of this process");
            self.owned.remove(&session);
            self.sealer.forget(session);
        }
        Ok(())
    }

    async fn end(mut self, ending: Ending) {
        if let Err(error) = self.connection.busy_timeout(self.patience) {
            tracing::debug!(%error, "the database does not wait");
        }
        if let Err(error) = self.catch_up() {
            tracing::error!(%error, "the next process has to let the database catch up");
        }
        self.ahead.close();
        let tallies = self.sinks.finish().await;
        note_missed(&self.connection, tallies.iter());
        match ending {
            Ending::Fold => {
                self.fold.settle().await;
                // The last connection to close checkpoints the log.
                drop(self.fold);
                let connection = self.connection;
                let closed = tokio::task::spawn_blocking(|| connection.close().map_err(|(_, error)| error)).await;
                if let Ok(Err(error)) = closed {
                    tracing::warn!(%error, "the database did not close cleanly");
                }
            }
            // Dropping the connection would checkpoint too; the process exits now, which closes its descriptors.
            Ending::Leave => std::mem::forget(self.connection),
        }
    }

    /// Writes quick commands in this task and slow ones on a blocking thread.
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
        let heavy = commands.iter().any(Command::is_heavy);
        if sync == Sync::Log && need != Need::First && !heavy {
            match self.write(commands, sync, Wait::Never) {
                Written::Answered => {
                    if self.fold.need() == Need::Beside {
                        self.fold.beside();
                    }
                    return Ok(self);
                }
                // A catch-up alone does not wait for another process: it is retried later.
                Written::Locked(again) if again.iter().all(Command::is_catching_up) => return Ok(self),
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
        let sealed = self
            .begin(sync, wait)
            .and_then(|()| self.sealer.seal(&self.connection, &commands, &self.owned));
        let outcome = match sealed {
            Ok(sealed) => self.go(commands, sealed, wait, &mut answers),
            Err(error) if wait == Wait::Never && Trouble::of_write(&error) == Trouble::Locked => {
                Ok(Committed::Locked(commands))
            }
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
            Ok(Committed::Refused(error)) => self.tell_failed(&error, answers),
            Err(error) => self.tell_failed(&record_error(error), answers),
        }
        Written::Answered
    }

    /// Writes the sealed commands in the fastest possible way.
    fn go(
        &mut self,
        commands: Vec<Command>,
        sealed: AllSealed,
        wait: Wait,
        answers: &mut Vec<Answer>,
    ) -> Result<Committed, rusqlite::Error> {
        // A stop request is recorded even if the journal has a loss.
        let stops = commands.iter().all(|command| matches!(command, Command::Stop { .. }));
        if self.lost.is_some()
            && !stops
            && let Some(error) = self.refusal()
        {
            skip_all(commands, answers);
            return Ok(Committed::Refused(error));
        }
        let plain = Plain::of(&commands, &sealed, &self.owned);
        let went = match &plain {
            Some(plain) if wait == Wait::Never => self.ahead.write(plain, &sealed),
            _ => Went::Nowhere,
        };
        let plain = match (went, plain) {
            (Went::Ahead, Some(plain)) => {
                return Ok(Committed::Done(self.went_ahead(plain, commands, sealed, answers)));
            }
            (_, plain) => plain,
        };
        let disowned = match went {
            Went::Orphaned(lease) => self.disown(lease),
            Went::Ahead | Went::Nowhere => Ok(()),
        };
        match disowned.and_then(|()| self.catch_up()) {
            Ok(()) => {}
            Err(error) if wait == Wait::Never && Trouble::of_write(&error) == Trouble::Locked => {
                return Ok(Committed::Locked(commands));
            }
            Err(error) => {
                skip_all(commands, answers);
                return Err(error);
            }
        }
        if commands.iter().all(Command::is_catching_up) {
            // The catch-up was their only purpose.
            for command in commands {
                batch::caught_up(command, answers);
            }
            return Ok(Committed::Done(self.sinks.feed(&[])));
        }
        match plain {
            // The catch-up may have shown that another process continues a chain: then nothing of this process may follow.
            Some(plain) if went == Went::Nowhere && plain.is_of(&self.owned) => {
                self.commit_plain(plain, commands, sealed, wait, answers)
            }
            _ => self.commit(commands, sealed, wait, answers),
        }
    }

    /// Drops the sessions that other processes own by now, according to the database.
    fn disown(&mut self, lease: LeaseId) -> Result<(), rusqlite::Error> {
        let mut ours = self
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND lease = ?")?;
        let of_lease = self.owned.iter().filter(|(_, chain)| chain.lease == lease);
        let sessions: Vec<SessionId> = of_lease.map(|(session, _)| *session).collect();
        for session in sessions {
            if !ours.exists((session.to_string(), lease.to_string()))? {
                self.owned.remove(&session);
                self.sealer.forget(session);
            }
        }
        Ok(())
    }

    /// Finishes a write to the write-ahead file: callers are answered, and the database gets the records soon.
    fn went_ahead(
        &mut self,
        plain: Plain,
        commands: Vec<Command>,
        sealed: AllSealed,
        answers: &mut Vec<Answer>,
    ) -> Taking {
        plain.settle(commands, answers);
        plain::pieces(&sealed).for_each(|piece| self.sealer.advance(piece));
        let Plain { records, changed } = plain;
        self.owned.extend(changed);
        let taking = self.sinks.feed(&records);
        self.ahead.add(records, sealed);
        taking
    }

    fn is_durable(&self, command: &Command) -> bool {
        match command {
            Command::Record { event, .. } => self.owned.get(&event.session).is_some_and(|chain| chain.durable),
            Command::Open { opening, .. } => opening.durable,
            // A person must not have to answer twice after a power failure, and a client's key must not start a second run.
            Command::Answer { .. } => true,
            Command::Claim { claim, .. } => claim.key.is_some(),
            Command::Change { .. }
            | Command::Alias { .. }
            | Command::Adopt { .. }
            | Command::Resume { .. }
            | Command::Spare { .. }
            | Command::Forget { .. }
            | Command::Settle { .. }
            | Command::Enter { .. }
            | Command::Park { .. }
            | Command::Counted { .. }
            | Command::Release { .. }
            | Command::Reclaim { .. }
            | Command::Keep { .. }
            | Command::Stop { .. }
            | Command::Prune { .. }
            | Command::CatchUp { .. }
            | Command::Close { .. } => false,
        }
    }

    /// Configures durability and lock waiting for the next commits.
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

    /// Commits records that only append to chains, in one statement.
    fn commit_plain(
        &mut self,
        plain: Plain,
        commands: Vec<Command>,
        sealed: AllSealed,
        wait: Wait,
        answers: &mut Vec<Answer>,
    ) -> Result<Committed, rusqlite::Error> {
        match plain.insert(&self.connection, &sealed) {
            Ok(()) => {
                plain.settle(commands, answers);
                self.owned.extend(plain.changed);
                plain::pieces(&sealed).for_each(|piece| self.sealer.advance(piece));
                Ok(Committed::Done(self.sinks.feed(&plain.records)))
            }
            Err(error) => match Trouble::of_write(&error) {
                Trouble::Locked if wait == Wait::Never => Ok(Committed::Locked(commands)),
                // Another process wrote to one of the chains: a commit one by one still writes the others.
                Trouble::Taken => self.commit(commands, sealed, wait, answers),
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
        sealed: AllSealed,
        wait: Wait,
        answers: &mut Vec<Answer>,
    ) -> Result<Committed, rusqlite::Error> {
        let mut outcome = match self.connection.execute_batch("BEGIN IMMEDIATE") {
            Err(error) if wait == Wait::Never && Trouble::of_write(&error) == Trouble::Locked => {
                return Ok(Committed::Locked(commands));
            }
            begun => begun,
        };
        let stops = commands.iter().all(|command| matches!(command, Command::Stop { .. }));
        if outcome.is_ok()
            && !stops
            && let Some(error) = self.refusal()
        {
            self.roll_back();
            skip_all(commands, answers);
            return Ok(Committed::Refused(error));
        }
        let mut batch = Batch::new(&self.connection, &self.signer, &self.owned);
        let sealed = sealed.into_iter().chain(std::iter::repeat_with(|| None));
        for (command, sealed) in commands.into_iter().zip(sealed) {
            if outcome.is_ok() {
                outcome = batch.apply(command, sealed, answers);
            } else {
                batch::skip(command, answers);
            }
        }
        let done = batch.finish();
        if let Err(error) = outcome.and_then(|()| self.connection.execute_batch("COMMIT")) {
            self.roll_back();
            return Err(error);
        }
        for kept in &done.kept {
            self.sealer.learn(kept);
        }
        for execution in done.over {
            self.sealer.finish(execution);
        }
        for (session, chain) in done.changed {
            if let Some(chain) = chain {
                self.owned.insert(session, chain);
            } else {
                self.owned.remove(&session);
                self.sealer.forget(session);
            }
        }
        if let Some(mark) = done.mark {
            // The heads are committed; while the mark lags behind, nothing more is signed.
            if let Err(error) = self.home.advance_mark(mark) {
                tracing::error!(%error, "the mark beside the signing key did not move");
                self.unmarked = Some(mark);
            }
        }
        Ok(Committed::Done(self.sinks.feed(&done.records)))
    }

    /// Rolls back; some failures have already ended the transaction.
    fn roll_back(&mut self) {
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::debug!(%error, "no transaction was left to roll back");
        }
    }
}

/// Waits for the next commands, or queues a catch-up when it is due. Returns 0 once no sender is left.
async fn next(due: Due, inbox: &mut mpsc::Receiver<Command>, waiting: &mut Vec<Command>) -> usize {
    // The callers just answered run first: most of them wait for something else, and the database catches up meanwhile.
    if due == Due::Soon {
        tokio::task::yield_now().await;
    }
    match due {
        Due::Soon if inbox.is_empty() => {}
        Due::Never | Due::Soon => return inbox.recv_many(waiting, MOST).await,
        Due::At(at) => {
            if let Ok(count) = tokio::time::timeout_at(at, inbox.recv_many(waiting, MOST)).await {
                return count;
            }
        }
    }
    let (reply, _) = oneshot::channel();
    waiting.push(Command::CatchUp { reply });
    waiting.len()
}

/// Replies to the callers once every durable sink has accepted the records.
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

/// Records missed records of sinks in the database; if that fails, the next commit retries.
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

/// Queues the replies of commands that were not attempted: they get the error of the failure.
fn skip_all(commands: Vec<Command>, answers: &mut Vec<Answer>) {
    for command in commands {
        batch::skip(command, answers);
    }
}
