//! Checkpoints of the database's log. They run in the background, on a separate connection and thread, so that no commit waits for the
//! disk. Only if that does not keep up, commits wait for a blocking checkpoint, which bounds the log.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::task::JoinHandle;

use crate::database;
use crate::home::Home;

/// Log pages after which a background checkpoint starts: a start after a crash must read them.
const PAGES: u32 = 400;
/// Log pages after which commits wait for a checkpoint.
const MOST: u32 = 3200;

thread_local! {
    /// Log pages after the last commit on this thread, until they are read.
    static LOG: Cell<u32> = const { Cell::new(0) };
}

/// The checkpoint that the log needs before the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// A checkpoint in the background.
    Beside,
    /// A checkpoint before the next commit.
    First,
}

/// The checkpoint state of the log.
#[derive(Debug)]
pub(super) struct Fold {
    home: Home,
    /// The background connection, opened at the first checkpoint.
    connection: Arc<Mutex<Option<Connection>>>,
    /// Current number of log pages.
    pages: u32,
    /// Log pages at the last background checkpoint, and at the last blocking one.
    beside: u32,
    first: u32,
    under_way: Option<JoinHandle<()>>,
}

impl Fold {
    /// Installs a hook that counts the log pages of `connection`.
    pub(super) fn of(home: Home, connection: &Connection) -> Fold {
        connection.wal_hook(Some(note));
        Fold {
            home,
            connection: Arc::default(),
            pages: 0,
            beside: 0,
            first: 0,
            under_way: None,
        }
    }

    /// Reads the number of log pages after a commit, on the thread that made it.
    pub(super) fn look(&mut self) {
        let pages = LOG.take();
        if pages == 0 {
            // There was no commit.
            return;
        }
        if pages < self.pages {
            // The log started again from its beginning.
            (self.beside, self.first) = (0, 0);
        }
        self.pages = pages;
    }

    pub(super) fn need(&self) -> Need {
        if self.pages >= self.first.saturating_add(MOST) {
            Need::First
        } else if self.pages >= self.beside.saturating_add(PAGES)
            && self.under_way.as_ref().is_none_or(JoinHandle::is_finished)
        {
            Need::Beside
        } else {
            Need::Nothing
        }
    }

    /// Starts a background checkpoint.
    pub(super) fn beside(&mut self) {
        self.beside = self.pages;
        let (home, connection) = (self.home.clone(), Arc::clone(&self.connection));
        self.under_way = Some(tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = fold_on(&mut connection, &home) {
                tracing::warn!(%error, "the journal's log could not be folded");
                *connection = None;
            }
        }));
    }

    /// Runs a checkpoint on the writer's own connection, so that nothing is appended meanwhile.
    pub(super) fn first(&mut self, connection: &Connection) {
        (self.beside, self.first) = (self.pages, self.pages);
        if let Err(error) = fold(connection, &self.home) {
            tracing::warn!(%error, pages = self.pages, "the journal's log grows and cannot be folded");
        }
    }

    /// Waits for the background checkpoint, if one is running.
    pub(super) async fn settle(&mut self) {
        if let Some(under_way) = self.under_way.take()
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, "folding the journal's log was broken off");
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the database's hook may fail")]
fn note(_: &Wal, pages: std::ffi::c_int) -> Result<(), rusqlite::Error> {
    LOG.set(u32::try_from(pages).unwrap_or(0));
    Ok(())
}

fn fold_on(connection: &mut Option<Connection>, home: &Home) -> Result<(), rusqlite::Error> {
    match connection {
        Some(connection) => fold(connection, home),
        None => fold(connection.insert(database::connect(&home.database())?), home),
    }
}

/// Runs a passive checkpoint: it transfers all pages that no reader needs and waits for nobody. Afterwards the log is on the disk, with
/// every head that was marked before.
fn fold(connection: &Connection, home: &Home) -> Result<(), rusqlite::Error> {
    let mark = home.read_mark().ok().flatten();
    let is_busy: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
    if let Some(mark) = mark.filter(|_| is_busy == 0) {
        home.note_on_disk(mark);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
