//! Detects a journal that lacks the newest signed head, and records an accepted loss.
//!
//! The mark beside the key holds the newest signed head. A head is committed first and marked afterwards, so the marked head is always in
//! the chain, wherever a crash occurs. If it is missing, the database was rolled back, or the mark was tampered with: nothing is signed on
//! such a chain, because after two more heads nobody could detect the loss any more (ADR 39).

use std::fmt;
use std::path::Path;

use ringfence_journal::{
    ChainHead, Event, EventKind, HeadMark, HeadSigner, LossCause, Principal, RecordError, SessionId,
};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use crate::OpenStoreError;
use crate::database::{self, record_error, to_signed};
use crate::home::{DatabaseFile, DatabasePresence, Home, MarkError};
use crate::writer;

/// A loss in the journal, compared with the mark beside the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalLoss {
    /// The marked head is not in the database: the database was rolled back.
    RolledBack {
        /// The number of the marked head.
        marked: u64,
        /// The number of the last head in the database.
        found: u64,
    },
    /// There are signed heads, but the mark is missing or damaged.
    MarkGone {
        /// The number of the last head in the database.
        found: u64,
    },
    /// The database is missing or empty.
    DatabaseGone {
        /// The number of the marked head.
        marked: u64,
    },
    /// Another file has replaced the open database.
    Replaced {
        /// The number of the last head of the open one.
        found: u64,
    },
}

impl JournalLoss {
    /// The number of the marked head, if there is a mark.
    pub fn marked(self) -> Option<u64> {
        match self {
            JournalLoss::RolledBack { marked, .. } | JournalLoss::DatabaseGone { marked } => Some(marked),
            JournalLoss::MarkGone { .. } | JournalLoss::Replaced { .. } => None,
        }
    }

    /// The number of the last head in the database; 0 if the database is missing.
    pub fn found(self) -> u64 {
        match self {
            JournalLoss::RolledBack { found, .. }
            | JournalLoss::MarkGone { found }
            | JournalLoss::Replaced { found } => found,
            JournalLoss::DatabaseGone { .. } => 0,
        }
    }
}

impl fmt::Display for JournalLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalLoss::RolledBack { marked, found } => write!(
                f,
                "the mark beside the signing key remembers signed head {marked}, and the journal, which ends at head {found}, does not have it: records were lost, or an older copy was put back"
            ),
            JournalLoss::MarkGone { found } => write!(
                f,
                "the journal has {found} signed heads, and the mark beside the signing key is gone or damaged: what came after them cannot be known"
            ),
            JournalLoss::DatabaseGone { marked } => write!(
                f,
                "the journal is empty or gone, and the mark beside the signing key remembers signed head {marked}"
            ),
            JournalLoss::Replaced { .. } => {
                f.write_str("another file was put where the journal of this process was: it has to be started again")
            }
        }
    }
}

/// Why the check for a loss failed. The check fails closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LossCheckError {
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

impl LossCheckError {
    pub(crate) fn into_record_error(self) -> RecordError {
        match self {
            LossCheckError::Database(error) => record_error(error),
            LossCheckError::Mark(error) => RecordError::Lost {
                what: format!("the mark beside the signing key cannot be used: {error}"),
            },
        }
    }

    fn into_open_error(self, path: &Path) -> OpenStoreError {
        match self {
            LossCheckError::Database(error) => OpenStoreError::from_database(path.to_owned(), error),
            LossCheckError::Mark(MarkError::File { path, source }) => OpenStoreError::File { path, source },
            LossCheckError::Mark(error @ MarkError::Form { .. }) => OpenStoreError::Damaged {
                path: path.to_owned(),
                what: error.to_string(),
            },
        }
    }
}

/// Checks whether the marked head is in the chain. The mark is read first: it may lag behind the heads but is never ahead of them.
pub(crate) fn find_loss(home: &Home, connection: &Connection) -> Result<Option<JournalLoss>, LossCheckError> {
    let mark = match home.read_mark() {
        Ok(mark) => mark,
        Err(MarkError::Form { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(mark) = mark else {
        let found = last_head_number(connection)?;
        return Ok((found > 0).then_some(JournalLoss::MarkGone { found }));
    };
    if is_mark_in_chain(mark, connection)? {
        return Ok(None);
    }
    let found = last_head_number(connection)?;
    Ok(Some(JournalLoss::RolledBack { marked: mark.n, found }))
}

/// The same check for an open database, which must also still be the file at its path.
pub(crate) fn find_loss_while_open(
    home: &Home,
    connection: &Connection,
    file: DatabaseFile,
) -> Result<Option<JournalLoss>, LossCheckError> {
    if home.database_file()? == Some(file) {
        return find_loss(home, connection);
    }
    let found = last_head_number(connection)?;
    Ok(Some(JournalLoss::Replaced { found }))
}

fn is_mark_in_chain(mark: HeadMark, connection: &Connection) -> Result<bool, rusqlite::Error> {
    if mark == HeadMark::start() {
        return Ok(true);
    }
    let head = connection
        .prepare_cached("SELECT n, prev, session, seq, record, closed FROM heads WHERE n = ?")?
        .query_row([to_signed(mark.n)], writer::head_row)
        .optional()?;
    Ok(head.is_some_and(|head: ChainHead| HeadMark::after(&head) == mark))
}

fn last_head_number(connection: &Connection) -> Result<u64, rusqlite::Error> {
    Ok(writer::last_head(connection)?.n)
}

/// How a loss at opening is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossHandling {
    /// The store refuses to open.
    Refuse,
    /// The store opens for reading; nothing is written.
    ReadOnly,
}

/// Checks a newly opened database for a loss, and creates the mark of a new one. A loss that a power cut explains is accepted with a
/// record; any other is returned.
pub(crate) fn check_at_opening(
    home: &Home,
    connection: &mut Connection,
    signer: &HeadSigner,
) -> Result<Option<JournalLoss>, OpenStoreError> {
    let path = home.database_path();
    let failed = |error: LossCheckError| error.into_open_error(&path);
    let loss = find_loss(home, connection).map_err(failed)?;
    if loss.is_none() {
        // A folder of an earlier version that has signed nothing has no mark yet.
        home.start_mark().map_err(|error| failed(error.into()))?;
        return match home.note_boot(|| writer::last_head(connection)) {
            Ok(()) => Ok(None),
            Err(error) => Err(failed(error)),
        };
    }
    // A process that accepts a loss holds the write lock, so the check is repeated under it.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|source| OpenStoreError::from_database(path.clone(), source))?;
    let loss = find_loss(home, &transaction).map_err(failed)?;
    drop(transaction);
    let Some(loss) = loss else { return Ok(None) };
    let was_cut = home
        .synced_before_boot()
        .is_some_and(|mark| is_mark_in_chain(mark, connection).unwrap_or(false));
    if !was_cut {
        return Ok(Some(loss));
    }
    let by = Principal::Local(folder_owner(home));
    record_acceptance(home, connection, signer, acceptance(loss, LossCause::PowerCut, by))?;
    // From here on the record is on the disk: the same power cut explains no other loss.
    home.note_boot(|| writer::last_head(connection)).map_err(failed)?;
    tracing::warn!(%loss, "the machine started anew before the end of the journal had reached the disk; that is written down");
    Ok(None)
}

/// The user who owns the data folder.
fn folder_owner(home: &Home) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(home.path()).map_or(0, |data| data.uid())
}

/// The event by which a loss is accepted.
fn acceptance(loss: JournalLoss, cause: LossCause, by: Principal) -> EventKind {
    EventKind::LossAccepted {
        marked: loss.marked(),
        found: loss.found(),
        cause,
        by,
    }
}

/// Records that a loss is accepted, and moves the mark to the head of that record. Wherever a crash occurs, either the loss is still
/// detected or the record exists.
fn record_acceptance(
    home: &Home,
    connection: &mut Connection,
    signer: &HeadSigner,
    acceptance: EventKind,
) -> Result<SessionId, OpenStoreError> {
    let path = home.database_path();
    let trouble = |source| OpenStoreError::from_database(path.clone(), source);
    let session = SessionId::generate().map_err(OpenStoreError::Entropy)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(trouble)?;
    let mark = writer::record_alone(&transaction, signer, &Event::from_host(session, None, acceptance))
        .map_err(trouble)?
        .map_err(|error| OpenStoreError::Damaged {
            path: path.clone(),
            what: error.to_string(),
        })?;
    transaction.commit().map_err(trouble)?;
    // The mark moves last: the old mark shows how much is missing.
    home.set_mark(mark)
        .map_err(|error| LossCheckError::from(error).into_open_error(&path))?;
    Ok(session)
}

/// Fails if there is no database although the mark beside the key names a signed head. Creates and changes nothing.
pub fn check_journal_gone(home: &Path) -> Result<(), OpenStoreError> {
    let home = Home::existing(home)?;
    match home.database_presence()? {
        DatabasePresence::Present => Ok(()),
        DatabasePresence::Missing => check_database_gone(&home),
    }
}

/// The same check for a database that is known to be missing.
pub(crate) fn check_database_gone(home: &Home) -> Result<(), OpenStoreError> {
    let path = home.database_path();
    // An unreadable mark may name a head: then no new database is created.
    let mark = home.read_mark().map_err(|error| OpenStoreError::Damaged {
        path: path.clone(),
        what: error.to_string(),
    })?;
    match mark.filter(|mark| mark.n > 0) {
        Some(mark) => Err(OpenStoreError::Lost {
            path,
            loss: JournalLoss::DatabaseGone { marked: mark.n },
        }),
        None => Ok(()),
    }
}

/// The result of accepting a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossAcceptance {
    /// The loss that was accepted.
    pub loss: JournalLoss,
    /// The session whose only record documents it.
    pub record: SessionId,
}

/// Accepts a loss on behalf of an operator: records it and makes the journal writable again. Returns `None` if nothing is missing. May wait
/// for other processes.
pub fn accept_loss(home: &Path, by: Principal) -> Result<Option<LossAcceptance>, OpenStoreError> {
    let home = Home::prepare(home)?;
    let found = home.database_presence()?;
    let signer = home.signer(found)?;
    let path = home.database_path();
    let gone = match found {
        DatabasePresence::Present => None,
        DatabasePresence::Missing => {
            let mark = home.read_mark().ok().flatten();
            let Some(mark) = mark.filter(|mark| mark.n > 0) else {
                return Ok(None);
            };
            home.create_database()?;
            Some(JournalLoss::DatabaseGone { marked: mark.n })
        }
    };
    let mut connection = database::open_migrated(path.clone())?;
    let loss = find_loss(&home, &connection).map_err(|error| error.into_open_error(&path))?;
    let Some(loss) = gone.or(loss) else { return Ok(None) };
    let record = record_acceptance(
        &home,
        &mut connection,
        &signer,
        acceptance(loss, LossCause::Operator, by),
    )?;
    Ok(Some(LossAcceptance { loss, record }))
}
