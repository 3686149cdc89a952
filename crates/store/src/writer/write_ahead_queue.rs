//! The write-ahead queue: records that are answered and not committed yet. A commit takes ten times as long as a write to a file, and most
//! records have a caller that waits for them: those are written to a file, answered, and committed while the caller does something else.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_journal::{LeaseId, Record, SessionId};
use rusqlite::Connection;
use tokio::time::Instant;

use super::append::AppendBatch;
use super::sealing::SealedChanges;
use crate::database::SqliteErrorClass;
use crate::write_ahead::{self, WriteAheadRow};

/// Delay before a failed commit of the queue is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The same delay if another process held the write lock.
const LOCKED_RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// The most that may be queued; a record beyond it is committed together with the queue.
const MAX_ROWS: usize = 256;
const MAX_BYTES: u64 = 64 * 1024;
/// A queue of this size is committed as soon as the writer is idle: many rows in one commit cost little more than one.
const COMMIT_ROWS: usize = 64;
const COMMIT_BYTES: u64 = 32 * 1024;
/// A smaller queue is committed after this time.
const GATHER_INTERVAL: Duration = Duration::from_millis(5);

/// Whether the database lacks a record that was already answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatabaseLag(Arc<AtomicBool>);

impl DatabaseLag {
    pub(crate) fn is_behind(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// When the queue is to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatchUpDue {
    /// The queue is empty.
    Never,
    /// As soon as the writer has no other command.
    Soon,
    /// At this time: a retry, or the end of the gather interval.
    At(Instant),
}

/// The result of an attempt to write records ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteAheadOutcome {
    /// The file has the records: they are safe.
    Written,
    /// The records must be committed now.
    NotWritten,
    /// The lock file of the lease is gone: others may treat its process as dead and resume its sessions.
    Orphaned(LeaseId),
}

/// The write-ahead file of a lease.
#[derive(Debug)]
struct WriteAheadFile {
    lease: LeaseId,
    /// While the lock file exists, no other process treats this one as dead.
    lock: PathBuf,
    file: File,
}

/// The records that are written ahead, and the file that holds them.
#[derive(Debug)]
pub(super) struct WriteAheadQueue {
    run: PathBuf,
    file: Option<WriteAheadFile>,
    /// The offset of the next row; every row before it is not in the database yet.
    end: u64,
    rows: Vec<WriteAheadRow>,
    /// When the first of the queued rows was added.
    since: Option<Instant>,
    again: Option<Instant>,
    /// The last commit failed, other than by a lock: nothing more is written ahead until one succeeds.
    is_stuck: bool,
    behind: DatabaseLag,
}

impl WriteAheadQueue {
    pub(super) fn new(run: PathBuf, behind: DatabaseLag) -> WriteAheadQueue {
        WriteAheadQueue {
            run,
            file: None,
            end: 0,
            rows: Vec::new(),
            since: None,
            again: None,
            is_stuck: false,
            behind,
        }
    }

    /// When the queue is to be committed.
    pub(super) fn due(&self) -> CatchUpDue {
        let is_enough = self.rows.len() >= COMMIT_ROWS || self.end >= COMMIT_BYTES;
        match (self.again, self.since) {
            (Some(again), _) => CatchUpDue::At(again),
            (None, Some(since)) if !is_enough => CatchUpDue::At(since + GATHER_INTERVAL),
            (None, Some(_)) => CatchUpDue::Soon,
            (None, None) => CatchUpDue::Never,
        }
    }

    /// Writes the records of a commit to the file, if they may be written ahead.
    pub(super) fn write(&mut self, plain: &AppendBatch, sealed: &SealedChanges) -> WriteAheadOutcome {
        let room = self.rows.len() < MAX_ROWS && self.end < MAX_BYTES && !self.is_stuck;
        let Some(lease) = plain.lease().filter(|_| room) else {
            return WriteAheadOutcome::NotWritten;
        };
        let mut bytes = Vec::with_capacity(4096);
        for (record, piece) in plain.rows(sealed) {
            write_ahead::encode_row(record, piece, &mut bytes);
        }
        let end = self.end;
        let open = match self.file_for(lease) {
            Ok(open) if !open.lock.exists() => return WriteAheadOutcome::Orphaned(lease),
            open => open,
        };
        match open.and_then(|open| open.file.write_all_at(&bytes, end)) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                WriteAheadOutcome::Written
            }
            Err(error) => {
                // The records are committed at once instead, and their callers learn if that fails too: no part of them may stay in the
                // file.
                tracing::debug!(%error, "nothing can be written ahead of the database");
                self.truncate_tail();
                WriteAheadOutcome::NotWritten
            }
        }
    }

    /// Truncates the file to its valid end. A file that cannot be truncated is not used again.
    fn truncate_tail(&mut self) {
        let end = self.end;
        if self.file.as_ref().is_some_and(|open| open.file.set_len(end).is_err()) {
            self.file = None;
        }
    }

    /// The write-ahead file of a lease. One file stays in use while anything is queued.
    fn file_for(&mut self, lease: LeaseId) -> io::Result<&WriteAheadFile> {
        if self.file.as_ref().is_some_and(|open| open.lease != lease) {
            if !self.rows.is_empty() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            self.close();
        }
        let open = match self.file.take() {
            Some(open) => open,
            None => WriteAheadFile {
                lease,
                lock: self.run.join(format!("{lease}.lock")),
                // `create_new`: an existing file may hold records of another writer.
                file: OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(write_ahead::file_path(&self.run, lease))?,
            },
        };
        Ok(self.file.insert(open))
    }

    /// Queues the rows that were written ahead.
    pub(super) fn push(&mut self, records: Vec<Record>, sealed: SealedChanges) {
        let pieces = sealed.into_iter().map(|sealed| sealed?.ok()?.piece);
        let pieces = pieces.chain(std::iter::repeat_with(|| None));
        let rows = records.into_iter().zip(pieces);
        self.rows
            .extend(rows.map(|(record, piece)| WriteAheadRow { record, piece }));
        self.since.get_or_insert_with(Instant::now);
        self.behind.0.store(true, Ordering::Release);
    }

    /// Commits the queue. Returns the sessions whose chains another process continued: their queued records are lost to the database.
    pub(super) fn commit(&mut self, connection: &Connection) -> Result<Vec<SessionId>, rusqlite::Error> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let committed = match write_ahead::insert_rows(connection, &self.rows) {
            Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
                self.commit_one_by_one(connection)
            }
            committed => committed.map(|()| Vec::new()),
        };
        match committed {
            Ok(lost) => {
                self.rows.clear();
                self.end = 0;
                self.since = None;
                self.again = None;
                self.is_stuck = false;
                self.behind.0.store(false, Ordering::Release);
                Ok(lost)
            }
            Err(error) => {
                let is_locked = SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::Locked;
                // A lock does not clear an earlier failure.
                self.is_stuck |= !is_locked;
                self.again = Some(
                    Instant::now()
                        + if is_locked {
                            LOCKED_RETRY_INTERVAL
                        } else {
                            RETRY_INTERVAL
                        },
                );
                Err(error)
            }
        }
    }

    /// Defers the retry when the commit could not even be attempted.
    pub(super) fn defer_commit(&mut self) {
        if !self.rows.is_empty() {
            self.again.get_or_insert_with(|| Instant::now() + RETRY_INTERVAL);
        }
    }

    fn commit_one_by_one(&self, connection: &Connection) -> Result<Vec<SessionId>, rusqlite::Error> {
        let mut lost = Vec::new();
        for row in &self.rows {
            // A process that treated this one as dead has merged the record; or it continued the chain without it, and then nothing can
            // follow.
            if lost.contains(&row.record.session) || write_ahead::has_record(connection, &row.record)? {
                continue;
            }
            match write_ahead::insert_rows_in_transaction(connection, std::slice::from_ref(row)) {
                Err(error) if SqliteErrorClass::from_rusqlite(&error) == SqliteErrorClass::ConstraintViolated => {
                    lost.push(row.record.session);
                }
                inserted => inserted?,
            }
        }
        Ok(lost)
    }

    /// Stops writing ahead. Rows that the database did not take stay for the process that finds the lease dead.
    pub(super) fn close(&mut self) {
        let Some(open) = self.file.take().filter(|_| self.rows.is_empty()) else {
            return;
        };
        if let Err(error) = fs::remove_file(write_ahead::file_path(&self.run, open.lease)) {
            tracing::debug!(%error, "the file of what is ahead was gone already");
        }
    }
}

#[cfg(test)]
mod tests;
