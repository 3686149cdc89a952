//! The log of the database is folded into it beside the road: on a connection and a thread of its own, so that no commit waits for
//! the disk. Only when that does not keep up, commits wait until all of it is folded: the log never grows for ever.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::task::JoinHandle;

use crate::database;
use crate::home::Home;

/// Pages of log after which it is folded: a start after a crash reads them.
const PAGES: u32 = 400;
/// Pages of log after which commits wait until it is folded.
const MOST: u32 = 3200;

thread_local! {
    /// Pages of log after the last commit on this thread, until somebody looks.
    static LOG: Cell<u32> = const { Cell::new(0) };
}

/// What the log needs before the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// To be folded while others go on.
    Beside,
    /// To be folded before anything else.
    First,
}

/// How far the log was folded.
#[derive(Debug)]
pub(super) struct Fold {
    home: Home,
    /// Made at the first fold beside the road.
    connection: Arc<Mutex<Option<Connection>>>,
    /// Pages of log now.
    pages: u32,
    /// Pages of log when it was last folded beside the road, and when commits last waited for it.
    beside: u32,
    first: u32,
    under_way: Option<JoinHandle<()>>,
}

impl Fold {
    /// Watches the log of `connection`.
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

    /// Looks at the log after a commit, on the thread that made it.
    pub(super) fn look(&mut self) {
        let pages = LOG.take();
        if pages == 0 {
            // Nothing was committed.
            return;
        }
        if pages < self.pages {
            // It began anew.
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

    /// Starts folding while others go on.
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

    /// Folds on the writer's own connection, so that nothing is added meanwhile.
    pub(super) fn first(&mut self, connection: &Connection) {
        (self.beside, self.first) = (self.pages, self.pages);
        if let Err(error) = fold(connection, &self.home) {
            tracing::warn!(%error, pages = self.pages, "the journal's log grows and cannot be folded");
        }
    }

    /// Waits for what is under way.
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

/// Whatever nobody reads any more goes into the database; waits for nobody. The log is on the disk then, with every head that was
/// marked before.
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
