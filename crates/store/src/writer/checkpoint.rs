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
const CHECKPOINT_PAGES: u32 = 400;
/// Log pages after which commits wait for a checkpoint.
const MAX_LOG_PAGES: u32 = 3200;

thread_local! {
    /// Log pages after the last commit on this thread, until they are read.
    static LOG: Cell<u32> = const { Cell::new(0) };
}

/// The checkpoint that the log needs before the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointNeed {
    Nothing,
    /// A checkpoint in the background.
    Background,
    /// A checkpoint before the next commit.
    Blocking,
}

/// The checkpoint state of the log.
#[derive(Debug)]
pub(super) struct Checkpointer {
    home: Home,
    /// The background connection, opened at the first checkpoint.
    connection: Arc<Mutex<Option<Connection>>>,
    /// Current number of log pages.
    pages: u32,
    /// Log pages at the last background checkpoint, and at the last blocking one.
    background_pages: u32,
    blocking_pages: u32,
    under_way: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Installs a hook that counts the log pages of `connection`.
    pub(super) fn new(home: Home, connection: &Connection) -> Checkpointer {
        connection.wal_hook(Some(note_log_pages));
        Checkpointer {
            home,
            connection: Arc::default(),
            pages: 0,
            background_pages: 0,
            blocking_pages: 0,
            under_way: None,
        }
    }

    /// Reads the number of log pages after a commit, on the thread that made it.
    pub(super) fn update(&mut self) {
        let pages = LOG.take();
        if pages == 0 {
            // There was no commit.
            return;
        }
        if pages < self.pages {
            // The log started again from its beginning.
            (self.background_pages, self.blocking_pages) = (0, 0);
        }
        self.pages = pages;
    }

    pub(super) fn need(&self) -> CheckpointNeed {
        if self.pages >= self.blocking_pages.saturating_add(MAX_LOG_PAGES) {
            CheckpointNeed::Blocking
        } else if self.pages >= self.background_pages.saturating_add(CHECKPOINT_PAGES)
            && self.under_way.as_ref().is_none_or(JoinHandle::is_finished)
        {
            CheckpointNeed::Background
        } else {
            CheckpointNeed::Nothing
        }
    }

    /// Starts a background checkpoint.
    pub(super) fn start_background(&mut self) {
        self.background_pages = self.pages;
        let (home, connection) = (self.home.clone(), Arc::clone(&self.connection));
        self.under_way = Some(tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = checkpoint_on(&mut connection, &home) {
                tracing::warn!(%error, "the journal's log could not be folded");
                *connection = None;
            }
        }));
    }

    /// Runs a checkpoint on the writer's own connection, so that nothing is appended meanwhile.
    pub(super) fn run_blocking(&mut self, connection: &Connection) {
        (self.background_pages, self.blocking_pages) = (self.pages, self.pages);
        if let Err(error) = checkpoint(connection, &self.home) {
            tracing::warn!(%error, pages = self.pages, "the journal's log grows and cannot be folded");
        }
    }

    /// Waits for the background checkpoint, if one is running.
    pub(super) async fn wait_for_background(&mut self) {
        if let Some(under_way) = self.under_way.take()
            && let Err(error) = under_way.await
        {
            tracing::warn!(%error, "folding the journal's log was broken off");
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the database's hook may fail")]
fn note_log_pages(_: &Wal, pages: std::ffi::c_int) -> Result<(), rusqlite::Error> {
    LOG.set(u32::try_from(pages).unwrap_or(0));
    Ok(())
}

fn checkpoint_on(connection: &mut Option<Connection>, home: &Home) -> Result<(), rusqlite::Error> {
    match connection {
        Some(connection) => checkpoint(connection, home),
        None => checkpoint(connection.insert(database::connect(&home.database_path())?), home),
    }
}

/// Runs a passive checkpoint: it transfers all pages that no reader needs and waits for nobody. Afterwards the log is on the disk, with
/// every head that was marked before.
fn checkpoint(connection: &Connection, home: &Home) -> Result<(), rusqlite::Error> {
    let mark = home.read_mark().ok().flatten();
    let is_busy: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
    if let Some(mark) = mark.filter(|_| is_busy == 0) {
        home.note_on_disk(mark);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
