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

use super::plain::Plain;
use super::sealing::AllSealed;
use crate::ahead::{self, Row};
use crate::database::Trouble;

/// Delay before a failed commit of the queue is retried.
const AGAIN: Duration = Duration::from_secs(1);
/// The same delay if another process held the write lock.
const SHORTLY: Duration = Duration::from_millis(5);
/// The most that may be queued; a record beyond it is committed together with the queue.
const MOST_ROWS: usize = 256;
const MOST_BYTES: u64 = 64 * 1024;
/// A queue of this size is committed as soon as the writer is idle: many rows in one commit cost little more than one.
const ENOUGH_ROWS: usize = 64;
const ENOUGH_BYTES: u64 = 32 * 1024;
/// A smaller queue is committed after this time.
const GATHER: Duration = Duration::from_millis(5);

/// Whether the database lacks a record that was already answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behind(Arc<AtomicBool>);

impl Behind {
    pub(crate) fn is_behind(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// When the queue is to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The queue is empty.
    Never,
    /// As soon as the writer has no other command.
    Soon,
    /// At this time: a retry, or the end of the gather interval.
    At(Instant),
}

/// The result of an attempt to write records ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    /// The file has the records: they are safe.
    Ahead,
    /// The records must be committed now.
    Nowhere,
    /// The lock file of the lease is gone: others may treat its process as dead and resume its sessions.
    Orphaned(LeaseId),
}

/// The write-ahead file of a lease.
#[derive(Debug)]
struct Open {
    lease: LeaseId,
    /// While the lock file exists, no other process treats this one as dead.
    lock: PathBuf,
    file: File,
}

/// The records that are written ahead, and the file that holds them.
#[derive(Debug)]
pub(super) struct Ahead {
    run: PathBuf,
    file: Option<Open>,
    /// The offset of the next row; every row before it is not in the database yet.
    end: u64,
    rows: Vec<Row>,
    /// When the first of the queued rows was added.
    since: Option<Instant>,
    again: Option<Instant>,
    /// The last commit failed, other than by a lock: nothing more is written ahead until one succeeds.
    is_stuck: bool,
    behind: Behind,
}

impl Ahead {
    pub(super) fn new(run: PathBuf, behind: Behind) -> Ahead {
        Ahead {
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
    pub(super) fn due(&self) -> Due {
        let is_enough = self.rows.len() >= ENOUGH_ROWS || self.end >= ENOUGH_BYTES;
        match (self.again, self.since) {
            (Some(again), _) => Due::At(again),
            (None, Some(since)) if !is_enough => Due::At(since + GATHER),
            (None, Some(_)) => Due::Soon,
            (None, None) => Due::Never,
        }
    }

    /// Writes the records of a commit to the file, if they may be written ahead.
    pub(super) fn write(&mut self, plain: &Plain, sealed: &AllSealed) -> Went {
        let room = self.rows.len() < MOST_ROWS && self.end < MOST_BYTES && !self.is_stuck;
        let Some(lease) = plain.lease().filter(|_| room) else {
            return Went::Nowhere;
        };
        let mut bytes = Vec::with_capacity(4096);
        for (record, piece) in plain.rows(sealed) {
            ahead::write(record, piece, &mut bytes);
        }
        let end = self.end;
        let open = match self.file(lease) {
            Ok(open) if !open.lock.exists() => return Went::Orphaned(lease),
            open => open,
        };
        match open.and_then(|open| open.file.write_all_at(&bytes, end)) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Went::Ahead
            }
            Err(error) => {
                // The records are committed at once instead, and their callers learn if that fails too: no part of them may stay in the
                // file.
                tracing::debug!(%error, "nothing can be written ahead of the database");
                self.cut();
                Went::Nowhere
            }
        }
    }

    /// Truncates the file to its valid end. A file that cannot be truncated is not used again.
    fn cut(&mut self) {
        let end = self.end;
        if self.file.as_ref().is_some_and(|open| open.file.set_len(end).is_err()) {
            self.file = None;
        }
    }

    /// The write-ahead file of a lease. One file stays in use while anything is queued.
    fn file(&mut self, lease: LeaseId) -> io::Result<&Open> {
        if self.file.as_ref().is_some_and(|open| open.lease != lease) {
            if !self.rows.is_empty() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            self.close();
        }
        let open = match self.file.take() {
            Some(open) => open,
            None => Open {
                lease,
                lock: self.run.join(format!("{lease}.lock")),
                // `create_new`: an existing file may hold records of another writer.
                file: OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(ahead::file_of(&self.run, lease))?,
            },
        };
        Ok(self.file.insert(open))
    }

    /// Queues the rows that were written ahead.
    pub(super) fn add(&mut self, records: Vec<Record>, sealed: AllSealed) {
        let pieces = sealed.into_iter().map(|sealed| sealed?.ok()?.piece);
        let pieces = pieces.chain(std::iter::repeat_with(|| None));
        let rows = records.into_iter().zip(pieces);
        self.rows.extend(rows.map(|(record, piece)| Row { record, piece }));
        self.since.get_or_insert_with(Instant::now);
        self.behind.0.store(true, Ordering::Release);
    }

    /// Commits the queue. Returns the sessions whose chains another process continued: their queued records are lost to the database.
    pub(super) fn commit(&mut self, connection: &Connection) -> Result<Vec<SessionId>, rusqlite::Error> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let committed = match ahead::insert(connection, &self.rows) {
            Err(error) if Trouble::of_write(&error) == Trouble::Taken => self.one_by_one(connection),
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
                let is_locked = Trouble::of_write(&error) == Trouble::Locked;
                // A lock does not clear an earlier failure.
                self.is_stuck |= !is_locked;
                self.again = Some(Instant::now() + if is_locked { SHORTLY } else { AGAIN });
                Err(error)
            }
        }
    }

    /// Defers the retry when the commit could not even be attempted.
    pub(super) fn was_not_asked(&mut self) {
        if !self.rows.is_empty() {
            self.again.get_or_insert_with(|| Instant::now() + AGAIN);
        }
    }

    fn one_by_one(&self, connection: &Connection) -> Result<Vec<SessionId>, rusqlite::Error> {
        let mut lost = Vec::new();
        for row in &self.rows {
            // A process that treated this one as dead has merged the record; or it continued the chain without it, and then nothing can
            // follow.
            if lost.contains(&row.record.session) || ahead::has(connection, &row.record)? {
                continue;
            }
            match ahead::insert_in(connection, std::slice::from_ref(row)) {
                Err(error) if Trouble::of_write(&error) == Trouble::Taken => lost.push(row.record.session),
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
        if let Err(error) = fs::remove_file(ahead::file_of(&self.run, open.lease)) {
            tracing::debug!(%error, "the file of what is ahead was gone already");
        }
    }
}

#[cfg(test)]
mod tests;
