//! What the writer has answered and not committed yet. A commit takes ten times as long as a write to a file, and most records have
//! somebody who waits for them: those are written to a file, answered, and committed when whoever was answered waits for others.

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

/// Where the database did not take it, it is tried again so often.
const AGAIN: Duration = Duration::from_secs(1);
/// And so often where another process was writing.
const SHORTLY: Duration = Duration::from_millis(5);
/// So much may be ahead; what comes then is committed with it.
const MOST_ROWS: usize = 256;
const MOST_BYTES: u64 = 64 * 1024;
/// So much is committed as soon as there is nothing else to do: many in one commit cost little more than one.
const ENOUGH_ROWS: usize = 64;
const ENOUGH_BYTES: u64 = 32 * 1024;
/// And less than that after so long.
const GATHER: Duration = Duration::from_millis(5);

/// Whether the database lacks something that was answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behind(Arc<AtomicBool>);

impl Behind {
    pub(crate) fn is_behind(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// When the database is to catch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// It has everything.
    Never,
    /// When there is nothing else to do.
    Soon,
    /// It was asked in vain, and is asked again then.
    At(Instant),
}

/// What became of records that might go ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    /// The file has them: they are safe.
    Ahead,
    /// They are to be committed now.
    Nowhere,
    /// The lock of their lease is gone: others may take its process for dead, and go on with its sessions.
    Orphaned(LeaseId),
}

/// The file of a lease.
#[derive(Debug)]
struct Open {
    lease: LeaseId,
    /// While this is there, nobody takes its process for dead.
    lock: PathBuf,
    file: File,
}

/// What is ahead of the database.
#[derive(Debug)]
pub(super) struct Ahead {
    run: PathBuf,
    file: Option<Open>,
    /// Where the next row goes: all before it is not in the database yet.
    end: u64,
    rows: Vec<Row>,
    /// When the first of them came.
    since: Option<Instant>,
    again: Option<Instant>,
    /// The database did not take it: nothing more goes ahead until it does.
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

    /// When the database is to catch up.
    pub(super) fn due(&self) -> Due {
        let is_enough = self.rows.len() >= ENOUGH_ROWS || self.end >= ENOUGH_BYTES;
        match (self.again, self.since) {
            (Some(again), _) => Due::At(again),
            (None, Some(since)) if !is_enough => Due::At(since + GATHER),
            (None, Some(_)) => Due::Soon,
            (None, None) => Due::Never,
        }
    }

    /// Writes the records of a commit to the file, if they may go ahead.
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
                // Then it is committed at once, and whoever waits is told if that fails too: nobody may find a part of it.
                tracing::debug!(%error, "nothing can be written ahead of the database");
                self.cut();
                Went::Nowhere
            }
        }
    }

    /// Takes back what was written behind the end. A file that cannot be cut is not used again.
    fn cut(&mut self) {
        let end = self.end;
        if self.file.as_ref().is_some_and(|open| open.file.set_len(end).is_err()) {
            self.file = None;
        }
    }

    /// The file of a lease. One is in use as long as anything is ahead.
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
                // Never one that is there: somebody's records may be in it.
                file: OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(ahead::file_of(&self.run, lease))?,
            },
        };
        Ok(self.file.insert(open))
    }

    /// Remembers what was written for the database.
    pub(super) fn add(&mut self, records: Vec<Record>, sealed: AllSealed) {
        let pieces = sealed.into_iter().map(|sealed| sealed?.ok()?.piece);
        let pieces = pieces.chain(std::iter::repeat_with(|| None));
        let rows = records.into_iter().zip(pieces);
        self.rows.extend(rows.map(|(record, piece)| Row { record, piece }));
        self.since.get_or_insert_with(Instant::now);
        self.behind.0.store(true, Ordering::Release);
    }

    /// Commits it. Answers the sessions whose chains somebody else went on with: what was ahead of theirs is lost to the database.
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
                // A lock says nothing of what was wrong before.
                self.is_stuck |= !is_locked;
                self.again = Some(Instant::now() + if is_locked { SHORTLY } else { AGAIN });
                Err(error)
            }
        }
    }

    /// The database could not even be asked: not again at once.
    pub(super) fn was_not_asked(&mut self) {
        if !self.rows.is_empty() {
            self.again.get_or_insert_with(|| Instant::now() + AGAIN);
        }
    }

    fn one_by_one(&self, connection: &Connection) -> Result<Vec<SessionId>, rusqlite::Error> {
        let mut lost = Vec::new();
        for row in &self.rows {
            // Who took us for dead has put it there; or has gone on without it, and then nothing follows on it.
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

    /// Nothing more goes ahead. What the database did not take stays for whoever finds the lease dead.
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
