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

use ringfence_journal::{HeadMark, HeadSigner, LeaseId, RecordError, SessionId};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use crate::database::{SqliteErrorClass, record_error, to_signed};
use crate::home::{DatabaseFile, Home};
use crate::loss::JournalLoss;
use crate::open::OpenedDatabase;
use crate::seal::SealKeyring;
use crate::sink::{SinkReceipts, SinkSet, SinkStats};

mod append;
mod approvals;
mod batch;
mod chain;
mod checkpoint;
mod command;
pub(crate) mod entry_codec;
mod idempotency;
mod loss_guard;
mod projection;
mod pruning;
mod recordings;
mod row;
mod sealing;
mod workspaces;
mod write_ahead_queue;

use append::AppendBatch;
use batch::CommitBatch;
pub(crate) use batch::{head_row, last_head, record_alone};
use chain::OwnedChain;
pub(crate) use chain::last_record;
use checkpoint::{CheckpointNeed, Checkpointer};
pub(crate) use command::{RecordingChange, ReplySender, WriterCommand};
pub(crate) use sealing::SealedPiece;
use sealing::{SealedChanges, Sealer};
pub(crate) use write_ahead_queue::DatabaseLag;
use write_ahead_queue::{CatchUpDue, WriteAheadOutcome, WriteAheadQueue};

/// The most commands in one commit; bounds how long the write lock is held.
const MAX_BATCH_COMMANDS: usize = 256;

/// What happens to the database's log at shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShutdownMode {
    /// It is checkpointed into the database, which waits for the disk.
    Checkpoint,
    /// It stays for the next process that opens the database.
    KeepLog,
}

/// The callback of one caller: gets `None` after a successful commit, else the error.
type CommitCallback = Box<dyn FnOnce(Option<RecordError>) + Send>;

/// How durable a commit is before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// It reaches the log: survives a crash of the process.
    Log,
    /// It reaches the disk: survives a power failure.
    Disk,
}

/// Whether a commit may wait for another process's commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockWait {
    /// The commit runs on a blocking thread.
    Allowed,
    /// The commit runs in a task, where other tasks would wait too.
    Never,
}

/// The outcome of a group of commands.
enum WriteOutcome {
    /// All are answered, or will be after the commit.
    Answered,
    /// Another process holds the write lock: nothing has changed.
    Locked(Vec<WriterCommand>),
}

/// The outcome of a commit.
enum CommitOutcome {
    /// The commit succeeded; durable sinks still have to accept its records.
    Done(SinkReceipts),
    /// Another process holds the write lock: nothing has changed.
    Locked(Vec<WriterCommand>),
    /// The journal refuses to be written, for this reason.
    Refused(RecordError),
}

pub(crate) struct JournalWriter {
    connection: Connection,
    home: Home,
    signer: HeadSigner,
    sinks: SinkSet,
    owned: HashMap<SessionId, OwnedChain>,
    sealer: Sealer,
    durability: Durability,
    busy_timeout: Duration,
    checkpointer: Checkpointer,
    ahead: WriteAheadQueue,
    /// The identity of the database file.
    file: Option<DatabaseFile>,
    /// The loss found in the journal; while there is one, nothing is written.
    lost: Option<JournalLoss>,
    /// A signed head whose mark could not be written: nothing more is signed before it is.
    unmarked: Option<HeadMark>,
}

impl JournalWriter {
    pub(crate) fn new(
        opened: OpenedDatabase,
        sinks: SinkSet,
        seals: SealKeyring,
        behind: DatabaseLag,
    ) -> JournalWriter {
        let OpenedDatabase {
            home,
            connection,
            signer,
            busy_timeout,
            file,
            lost,
        } = opened;
        JournalWriter {
            checkpointer: Checkpointer::new(home.clone(), &connection),
            ahead: WriteAheadQueue::new(home.run_folder(), behind),
            sealer: Sealer::new(seals),
            connection,
            home,
            signer,
            sinks,
            owned: HashMap::new(),
            durability: Durability::Log,
            busy_timeout,
            file,
            lost,
            unmarked: None,
        }
    }

    /// Runs until every sender is gone or a command closes the writer.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<WriterCommand>) {
        let mut waiting = Vec::with_capacity(MAX_BATCH_COMMANDS);
        let mut closing = Vec::new();
        let mut last = ShutdownMode::Checkpoint;
        while next_commands(self.ahead.due(), &mut inbox, &mut waiting).await > 0 {
            let mut commands = Vec::with_capacity(waiting.len());
            for command in waiting.drain(..) {
                if let WriterCommand::Close { ending, reply } = command {
                    inbox.close();
                    last = ending;
                    closing.push(reply);
                } else {
                    commands.push(command);
                }
            }
            if !commands.is_empty() {
                self = match self.write_batch(commands).await {
                    Ok(writer) => writer,
                    // Waiting callers see their reply channel close.
                    Err(error) => return tracing::error!(%error, "the writer broke off"),
                };
            }
        }
        self.shut_down(last).await;
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
            self.sealer.forget_session(session);
        }
        Ok(())
    }

    async fn shut_down(mut self, ending: ShutdownMode) {
        if let Err(error) = self.connection.busy_timeout(self.busy_timeout) {
            tracing::debug!(%error, "the database does not wait");
        }
        if let Err(error) = self.catch_up() {
            tracing::error!(%error, "the next process has to let the database catch up");
        }
        self.ahead.close();
        let tallies = self.sinks.finish().await;
        record_missed(&self.connection, tallies.iter());
        match ending {
            ShutdownMode::Checkpoint => {
                self.checkpointer.wait_for_background().await;
                // The last connection to close checkpoints the log.
                drop(self.checkpointer);
                let connection = self.connection;
                let closed = tokio::task::spawn_blocking(|| connection.close().map_err(|(_, error)| error)).await;
                if let Ok(Err(error)) = closed {
                    tracing::warn!(%error, "the database did not close cleanly");
                }
            }
            // Dropping the connection would checkpoint too; the process exits now, which closes its descriptors.
            ShutdownMode::KeepLog => std::mem::forget(self.connection),
        }
    }

    /// Writes quick commands in this task and slow ones on a blocking thread.
    async fn write_batch(mut self, mut commands: Vec<WriterCommand>) -> Result<JournalWriter, JoinError> {
        let sync = if commands.iter().any(|command| self.is_durable(command)) {
            Durability::Disk
        } else {
            Durability::Log
        };
        let need = self.checkpointer.need();
        if need == CheckpointNeed::Blocking {
            self.checkpointer.wait_for_background().await;
        }
        let heavy = commands.iter().any(WriterCommand::is_heavy);
        if sync == Durability::Log && need != CheckpointNeed::Blocking && !heavy {
            match self.write_commands(commands, sync, LockWait::Never) {
                WriteOutcome::Answered => {
                    if self.checkpointer.need() == CheckpointNeed::Background {
                        self.checkpointer.start_background();
                    }
                    return Ok(self);
                }
                // A catch-up alone does not wait for another process: it is retried later.
                WriteOutcome::Locked(again) if again.iter().all(WriterCommand::is_catching_up) => return Ok(self),
                WriteOutcome::Locked(again) => commands = again,
            }
        }
        tokio::task::spawn_blocking(move || {
            if need == CheckpointNeed::Blocking {
                self.checkpointer.run_blocking(&self.connection);
            }
            self.write_commands(commands, sync, LockWait::Allowed);
            self
        })
        .await
    }

    fn write_commands(&mut self, commands: Vec<WriterCommand>, sync: Durability, wait: LockWait) -> WriteOutcome {
        let mut answers = Vec::with_capacity(commands.len());
        let sealed = self
            .configure_commit(sync, wait)
            .and_then(|()| self.sealer.seal_commands(&self.connection, &commands, &self.owned));
        let outcome = match sealed {
            Ok(sealed) => self.write_sealed(commands, sealed, wait, &mut answers),
            Err(error)
                if wait == LockWait::Never && SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::Locked =>
            {
                Ok(CommitOutcome::Locked(commands))
            }
            Err(error) => {
                skip_all(commands, &mut answers);
                Err(error)
            }
        };
        self.checkpointer.update();
        match outcome {
            Ok(CommitOutcome::Done(taking)) => {
                send_replies(answers, taking);
                record_missed(&self.connection, self.sinks.tallies());
            }
            Ok(CommitOutcome::Locked(again)) => return WriteOutcome::Locked(again),
            Ok(CommitOutcome::Refused(error)) => self.fail_answers(&error, answers),
            Err(error) => self.fail_answers(&record_error(error), answers),
        }
        WriteOutcome::Answered
    }

    /// Writes the sealed commands in the fastest possible way.
    fn write_sealed(
        &mut self,
        commands: Vec<WriterCommand>,
        sealed: SealedChanges,
        wait: LockWait,
        answers: &mut Vec<CommitCallback>,
    ) -> Result<CommitOutcome, rusqlite::Error> {
        // A stop request is recorded even if the journal has a loss.
        let stops = commands
            .iter()
            .all(|command| matches!(command, WriterCommand::Stop { .. }));
        if self.lost.is_some()
            && !stops
            && let Some(error) = self.refusal()
        {
            skip_all(commands, answers);
            return Ok(CommitOutcome::Refused(error));
        }
        let plain = AppendBatch::from_commands(&commands, &sealed, &self.owned);
        let went = match &plain {
            Some(plain) if wait == LockWait::Never => self.ahead.write(plain, &sealed),
            _ => WriteAheadOutcome::NotWritten,
        };
        let plain = match (went, plain) {
            (WriteAheadOutcome::Written, Some(plain)) => {
                return Ok(CommitOutcome::Done(
                    self.finish_write_ahead(plain, commands, sealed, answers),
                ));
            }
            (_, plain) => plain,
        };
        let disowned = match went {
            WriteAheadOutcome::Orphaned(lease) => self.drop_adopted_sessions(lease),
            WriteAheadOutcome::Written | WriteAheadOutcome::NotWritten => Ok(()),
        };
        match disowned.and_then(|()| self.catch_up()) {
            Ok(()) => {}
            Err(error)
                if wait == LockWait::Never && SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::Locked =>
            {
                return Ok(CommitOutcome::Locked(commands));
            }
            Err(error) => {
                skip_all(commands, answers);
                return Err(error);
            }
        }
        if commands.iter().all(WriterCommand::is_catching_up) {
            // The catch-up was their only purpose.
            for command in commands {
                batch::queue_catch_up(command, answers);
            }
            return Ok(CommitOutcome::Done(self.sinks.offer(&[])));
        }
        match plain {
            // The catch-up may have shown that another process continues a chain: then nothing of this process may follow.
            Some(plain) if went == WriteAheadOutcome::NotWritten && plain.is_owned(&self.owned) => {
                self.commit_append(plain, commands, sealed, wait, answers)
            }
            _ => self.commit(commands, sealed, wait, answers),
        }
    }

    /// Drops the sessions that other processes own by now, according to the database.
    fn drop_adopted_sessions(&mut self, lease: LeaseId) -> Result<(), rusqlite::Error> {
        let mut ours = self
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND lease = ?")?;
        let of_lease = self.owned.iter().filter(|(_, chain)| chain.lease == lease);
        let sessions: Vec<SessionId> = of_lease.map(|(session, _)| *session).collect();
        for session in sessions {
            if !ours.exists((session.to_string(), lease.to_string()))? {
                self.owned.remove(&session);
                self.sealer.forget_session(session);
            }
        }
        Ok(())
    }

    /// Finishes a write to the write-ahead file: callers are answered, and the database gets the records soon.
    fn finish_write_ahead(
        &mut self,
        plain: AppendBatch,
        commands: Vec<WriterCommand>,
        sealed: SealedChanges,
        answers: &mut Vec<CommitCallback>,
    ) -> SinkReceipts {
        plain.queue_replies(commands, answers);
        append::pieces(&sealed).for_each(|piece| self.sealer.note_committed_piece(piece));
        let AppendBatch { records, changed } = plain;
        self.owned.extend(changed);
        let taking = self.sinks.offer(&records);
        self.ahead.push(records, sealed);
        taking
    }

    fn is_durable(&self, command: &WriterCommand) -> bool {
        match command {
            WriterCommand::Record { event, .. } => self.owned.get(&event.session).is_some_and(|chain| chain.durable),
            WriterCommand::Open { opening, .. } => opening.durable,
            // A person must not have to answer twice after a power failure, and a client's key must not start a second run.
            WriterCommand::Answer { .. } => true,
            WriterCommand::Claim { claim, .. } => claim.key.is_some(),
            WriterCommand::Change { .. }
            | WriterCommand::KeepAliases { .. }
            | WriterCommand::Adopt { .. }
            | WriterCommand::Resume { .. }
            | WriterCommand::LeaveUnfinished { .. }
            | WriterCommand::Forget { .. }
            | WriterCommand::Settle { .. }
            | WriterCommand::Enter { .. }
            | WriterCommand::Park { .. }
            | WriterCommand::NoteWorkspace { .. }
            | WriterCommand::Release { .. }
            | WriterCommand::Reclaim { .. }
            | WriterCommand::KeepPolicy { .. }
            | WriterCommand::Stop { .. }
            | WriterCommand::Prune { .. }
            | WriterCommand::CatchUp { .. }
            | WriterCommand::Close { .. } => false,
        }
    }

    /// Configures durability and lock waiting for the next commits.
    fn configure_commit(&mut self, sync: Durability, wait: LockWait) -> Result<(), rusqlite::Error> {
        self.connection.busy_timeout(match wait {
            LockWait::Allowed => self.busy_timeout,
            LockWait::Never => Duration::ZERO,
        })?;
        if self.durability != sync {
            self.connection.execute_batch(match sync {
                Durability::Log => "PRAGMA synchronous = NORMAL",
                Durability::Disk => "PRAGMA synchronous = FULL",
            })?;
            self.durability = sync;
        }
        Ok(())
    }

    /// Commits records that only append to chains, in one statement.
    fn commit_append(
        &mut self,
        plain: AppendBatch,
        commands: Vec<WriterCommand>,
        sealed: SealedChanges,
        wait: LockWait,
        answers: &mut Vec<CommitCallback>,
    ) -> Result<CommitOutcome, rusqlite::Error> {
        match plain.insert(&self.connection, &sealed) {
            Ok(()) => {
                plain.queue_replies(commands, answers);
                self.owned.extend(plain.changed);
                append::pieces(&sealed).for_each(|piece| self.sealer.note_committed_piece(piece));
                Ok(CommitOutcome::Done(self.sinks.offer(&plain.records)))
            }
            Err(error) => match SqliteErrorClass::from_rusqlite(&error) {
                SqliteErrorClass::Locked if wait == LockWait::Never => Ok(CommitOutcome::Locked(commands)),
                // Another process wrote to one of the chains: a commit one by one still writes the others.
                SqliteErrorClass::ConstraintViolated => self.commit(commands, sealed, wait, answers),
                SqliteErrorClass::Locked
                | SqliteErrorClass::Full
                | SqliteErrorClass::Damaged
                | SqliteErrorClass::Other => {
                    skip_all(commands, answers);
                    Err(error)
                }
            },
        }
    }

    fn commit(
        &mut self,
        commands: Vec<WriterCommand>,
        sealed: SealedChanges,
        wait: LockWait,
        answers: &mut Vec<CommitCallback>,
    ) -> Result<CommitOutcome, rusqlite::Error> {
        let mut outcome = match self.connection.execute_batch("BEGIN IMMEDIATE") {
            Err(error)
                if wait == LockWait::Never && SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::Locked =>
            {
                return Ok(CommitOutcome::Locked(commands));
            }
            begun => begun,
        };
        let stops = commands
            .iter()
            .all(|command| matches!(command, WriterCommand::Stop { .. }));
        if outcome.is_ok()
            && !stops
            && let Some(error) = self.refusal()
        {
            self.roll_back();
            skip_all(commands, answers);
            return Ok(CommitOutcome::Refused(error));
        }
        let mut batch = CommitBatch::new(&self.connection, &self.signer, &self.owned);
        let sealed = sealed.into_iter().chain(std::iter::repeat_with(|| None));
        for (command, sealed) in commands.into_iter().zip(sealed) {
            if outcome.is_ok() {
                outcome = batch.apply(command, sealed, answers);
            } else {
                batch::queue_skipped(command, answers);
            }
        }
        let done = batch.finish();
        if let Err(error) = outcome.and_then(|()| self.connection.execute_batch("COMMIT")) {
            self.roll_back();
            return Err(error);
        }
        for kept in &done.kept {
            self.sealer.note_committed_change(kept);
        }
        for execution in done.over {
            self.sealer.forget_execution(execution);
        }
        for (session, chain) in done.changed {
            if let Some(chain) = chain {
                self.owned.insert(session, chain);
            } else {
                self.owned.remove(&session);
                self.sealer.forget_session(session);
            }
        }
        if let Some(mark) = done.mark {
            // The heads are committed; while the mark lags behind, nothing more is signed.
            if let Err(error) = self.home.advance_mark(mark) {
                tracing::error!(%error, "the mark beside the signing key did not move");
                self.unmarked = Some(mark);
            }
        }
        Ok(CommitOutcome::Done(self.sinks.offer(&done.records)))
    }

    /// Rolls back; some failures have already ended the transaction.
    fn roll_back(&mut self) {
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::debug!(%error, "no transaction was left to roll back");
        }
    }
}

/// Waits for the next commands, or queues a catch-up when it is due. Returns 0 once no sender is left.
async fn next_commands(
    due: CatchUpDue,
    inbox: &mut mpsc::Receiver<WriterCommand>,
    waiting: &mut Vec<WriterCommand>,
) -> usize {
    // The callers just answered run first: most of them wait for something else, and the database catches up meanwhile.
    if due == CatchUpDue::Soon {
        tokio::task::yield_now().await;
    }
    match due {
        CatchUpDue::Soon if inbox.is_empty() => {}
        CatchUpDue::Never | CatchUpDue::Soon => return inbox.recv_many(waiting, MAX_BATCH_COMMANDS).await,
        CatchUpDue::At(at) => {
            if let Ok(count) = tokio::time::timeout_at(at, inbox.recv_many(waiting, MAX_BATCH_COMMANDS)).await {
                return count;
            }
        }
    }
    let (reply, _) = oneshot::channel();
    waiting.push(WriterCommand::CatchUp { reply });
    waiting.len()
}

/// Replies to the callers once every durable sink has accepted the records.
fn send_replies(answers: Vec<CommitCallback>, taking: SinkReceipts) {
    if taking.is_empty() {
        return answers.into_iter().for_each(|answer| answer(None));
    }
    // The next commit does not wait for this one's sinks.
    tokio::spawn(async move {
        let failed = taking.wait_for_all().await.err();
        if let Some(error) = &failed {
            tracing::error!(code = error.code(), %error, events = answers.len(), "nothing happens without the sink");
        }
        for answer in answers {
            answer(failed.clone());
        }
    });
}

/// Records missed records of sinks in the database; if that fails, the next commit retries.
fn record_missed<'a>(connection: &Connection, tallies: impl Iterator<Item = &'a Arc<SinkStats>>) {
    for tally in tallies {
        let Some((count, reason)) = tally.take_unrecorded() else {
            continue;
        };
        let now = jiff::Timestamp::now().to_string();
        let noted = connection.execute(
            "INSERT INTO undelivered (sink, records, since, last, reason) VALUES (?1, ?2, ?3, ?3, ?4)
                ON CONFLICT (sink) DO UPDATE SET records = records + ?2, last = ?3, reason = ?4",
            rusqlite::params![tally.name, to_signed(count), now, reason],
        );
        if let Err(error) = noted {
            tracing::warn!(%error, sink = tally.name, "what a sink missed is not written down yet");
            tally.restore_unrecorded(count);
        }
    }
}

/// Queues the replies of commands that were not attempted: they get the error of the failure.
fn skip_all(commands: Vec<WriterCommand>, answers: &mut Vec<CommitCallback>) {
    for command in commands {
        batch::queue_skipped(command, answers);
    }
}
