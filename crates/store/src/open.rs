//! Opens the store and implements the port through which events are written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use ringfence_journal::{
    Event, HeadSigner, KeyError, LOST_HINT, LeaseId, NoEntropy, PublicKey, RecordError, RecordPosition, Recorder,
};
use rusqlite::Connection;
use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};

use crate::database::{self, SqliteErrorClass};
use crate::home::{DatabaseFile, DatabasePresence, Home};
use crate::loss::{self, JournalLoss, LossHandling};
use crate::query::ReadConnection;
use crate::seal::SealKeyring;
use crate::sink::{RemoteSink, SinkConfig, SinkError, SinkSet};
use crate::token::AccessTokens;
use crate::writer::{DatabaseLag, JournalWriter, ShutdownMode, WriterCommand};
use crate::{lease, write_ahead};

/// Commands that may be queued for the writer before senders must wait.
const COMMAND_CAPACITY: usize = 1024;

/// The store: the journal, sessions and leases of one data folder.
pub struct Store {
    pub(crate) home: Home,
    pub(crate) key: PublicKey,
    loss: Option<JournalLoss>,
    commands: mpsc::Sender<WriterCommand>,
    behind: DatabaseLag,
    reader: Mutex<ReadConnection>,
    pub(crate) seals: SealKeyring,
    /// The lease under which this process owns sessions.
    pub(crate) lease: std::sync::Mutex<Option<LeaseId>>,
    tokens: AccessTokens,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("home", &self.home.path())
            .finish_non_exhaustive()
    }
}

/// Why a store does not open. Nothing was changed except that missing folders were created.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// A folder cannot be created or read.
    #[error("cannot use the data folder `{}`", path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file in the data folder cannot be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Others could change or read a file or folder that must be private to the owner.
    #[error("`{}` is open to others (mode {mode:o})", path.display())]
    Exposed {
        /// The path of the file or folder.
        path: PathBuf,
        /// Its permission bits, such as `0o644`.
        mode: u32,
    },
    /// The database is not a plain file.
    #[error("`{}` is not a plain file", path.display())]
    NotAFile {
        /// The path of the database.
        path: PathBuf,
    },
    /// There is a database but no signing key.
    #[error("the journal's signing key `{}` is missing", path.display())]
    KeyMissing {
        /// The path where the key should be.
        path: PathBuf,
    },
    /// The key file does not contain a key.
    #[error("the journal's signing key `{}` cannot be read", path.display())]
    Key {
        /// The path of the key file.
        path: PathBuf,
        /// Why the key does not parse.
        source: KeyError,
    },
    /// The system gave no random bytes for a key.
    #[error("cannot make a signing key")]
    Entropy(#[source] NoEntropy),
    /// The database is damaged or truncated, or its mark is unreadable.
    #[error("the journal `{}` is damaged: {what}", path.display())]
    Damaged {
        /// The path of the database.
        path: PathBuf,
        /// A description of the damage.
        what: String,
    },
    /// Another process holds the lock of the database for too long.
    #[error("the journal `{}` is locked by another process", path.display())]
    Locked {
        /// The path of the database.
        path: PathBuf,
        /// The error of the database.
        source: rusqlite::Error,
    },
    /// The disk has no space left.
    #[error("the journal `{}` cannot grow: the disk is full", path.display())]
    Full {
        /// The path of the database.
        path: PathBuf,
        /// The error of the database.
        source: rusqlite::Error,
    },
    /// The database was written by a newer program.
    #[error("the journal `{}` has version {found}; this program knows {known}", path.display())]
    Version {
        /// The path of the database.
        path: PathBuf,
        /// The version of the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The database belongs to another program.
    #[error("`{}` is a database of another program", path.display())]
    NotOurs {
        /// The path of the database.
        path: PathBuf,
    },
    /// The database does not open for another reason.
    #[error("cannot open the journal `{}`", path.display())]
    Database {
        /// The path of the database.
        path: PathBuf,
        /// The error of the database.
        source: rusqlite::Error,
    },
    /// The newest signed head is missing from the journal.
    #[error("nothing is written to the journal `{}`: {loss}", path.display())]
    Lost {
        /// The path of the database.
        path: PathBuf,
        /// What is missing from the journal.
        loss: JournalLoss,
    },
    /// An audit sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[source] SinkError),
}

/// The hint for a missing database: there is nothing left to inspect.
const GONE_HINT: &str =
    "restore the data folder from a copy, or begin a new journal without it by `ringfence audit accept-loss`";

impl OpenStoreError {
    pub(crate) fn from_database(path: PathBuf, source: rusqlite::Error) -> OpenStoreError {
        match SqliteErrorClass::from_rusqlite(&source) {
            SqliteErrorClass::Full => OpenStoreError::Full { path, source },
            SqliteErrorClass::Locked => OpenStoreError::Locked { path, source },
            SqliteErrorClass::Damaged => OpenStoreError::Damaged {
                path,
                what: source.to_string(),
            },
            SqliteErrorClass::ConstraintViolated | SqliteErrorClass::Other => OpenStoreError::Database { path, source },
        }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            OpenStoreError::Folder { .. } | OpenStoreError::File { .. } | OpenStoreError::NotAFile { .. } => {
                "store.folder"
            }
            OpenStoreError::Exposed { .. } => "store.exposed",
            OpenStoreError::KeyMissing { .. } | OpenStoreError::Key { .. } | OpenStoreError::Entropy(_) => "store.key",
            OpenStoreError::Damaged { .. } | OpenStoreError::NotOurs { .. } => "store.damaged",
            OpenStoreError::Locked { .. } => "store.locked",
            OpenStoreError::Full { .. } => "store.full",
            OpenStoreError::Version { .. } => "store.version",
            OpenStoreError::Database { .. } => "store.open",
            OpenStoreError::Lost { .. } => "journal.lost",
            OpenStoreError::Sink(_) => "store.sink",
        }
    }

    /// What a person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OpenStoreError::Exposed { .. } => Some("take the permissions of group and others away"),
            OpenStoreError::KeyMissing { .. } | OpenStoreError::Key { .. } => {
                Some("restore the key from a copy, or move the whole data folder away to begin a new journal")
            }
            OpenStoreError::Damaged { .. } | OpenStoreError::NotOurs { .. } | OpenStoreError::NotAFile { .. } => {
                Some("restore the data folder from a copy, or move it away to begin a new journal")
            }
            OpenStoreError::Locked { .. } => {
                Some("another program holds the database open for writing; end it, then retry")
            }
            OpenStoreError::Full { .. } => Some("free space where the data folder lies, then retry"),
            OpenStoreError::Version { .. } => Some("use the newer program, or another data folder"),
            OpenStoreError::Lost {
                loss: JournalLoss::DatabaseGone { .. },
                ..
            } => Some(GONE_HINT),
            OpenStoreError::Lost { .. } => Some(LOST_HINT),
            OpenStoreError::Folder { .. }
            | OpenStoreError::File { .. }
            | OpenStoreError::Entropy(_)
            | OpenStoreError::Database { .. }
            | OpenStoreError::Sink(_) => None,
        }
    }
}

impl Store {
    /// Opens the store in this folder; creates it if nothing is there.
    pub async fn open(home: &Path) -> Result<Store, OpenStoreError> {
        Store::open_with(home, &[]).await
    }

    /// As [`Store::open`], with live sinks that get every record after its commit.
    pub async fn open_with(home: &Path, sinks: &[SinkConfig]) -> Result<Store, OpenStoreError> {
        Store::open_with_remotes(home, sinks, Vec::new()).await
    }

    /// As [`Store::open`], for reading: opens even with missing records. In that case nothing is written except stop requests.
    pub async fn open_to_read(home: &Path) -> Result<Store, OpenStoreError> {
        let opened = Store::open_database(home, LossHandling::ReadOnly).await?;
        let sinks = SinkSet::start(&[], Vec::new()).map_err(OpenStoreError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    /// As [`Store::open_with`], with remote sinks in addition.
    pub async fn open_with_remotes(
        home: &Path,
        sinks: &[SinkConfig],
        remotes: Vec<RemoteSink>,
    ) -> Result<Store, OpenStoreError> {
        let opened = Store::open_database(home, LossHandling::Refuse).await?;
        let sinks = SinkSet::start(sinks, remotes).map_err(OpenStoreError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    async fn open_database(home: &Path, on_loss: LossHandling) -> Result<OpenedDatabase, OpenStoreError> {
        let path = home.to_owned();
        let opened = tokio::task::spawn_blocking(move || OpenedDatabase::open_at(&path, on_loss)).await;
        // The blocking task panicked, or the process is shutting down.
        opened.map_err(|error| OpenStoreError::Folder {
            path: home.to_owned(),
            source: io::Error::other(error),
        })?
    }

    /// Starts the writer on an open database.
    fn start(opened: OpenedDatabase, sinks: SinkSet) -> Store {
        let (commands, inbox) = mpsc::channel(COMMAND_CAPACITY);
        let (home, key, loss) = (opened.home.clone(), opened.signer.public(), opened.lost);
        let seals = SealKeyring::new(&home);
        let reader = ReadConnection::new(home.database_path());
        let behind = DatabaseLag::default();
        tokio::spawn(JournalWriter::new(opened, sinks, seals.clone(), behind.clone()).run(inbox));
        Store {
            tokens: AccessTokens::new(&home),
            home,
            key,
            loss,
            commands,
            behind,
            reader: Mutex::new(reader),
            seals,
            lease: std::sync::Mutex::new(None),
        }
    }

    /// The public half of the key that signs heads.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The loss found at opening. If there is one, nothing is written.
    pub fn loss(&self) -> Option<JournalLoss> {
        self.loss
    }

    /// The absolute path of the data folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The access tokens for the servers of this program.
    pub fn access_tokens(&self) -> &AccessTokens {
        &self.tokens
    }

    /// Waits until everything is written and the database is closed. Later records are refused.
    pub async fn close(&self) {
        self.finish(ShutdownMode::Checkpoint).await;
    }

    /// As [`Store::close`], for a process that exits now: everything is written, but the database's log is left for the next process, which
    /// saves the wait for the disk.
    pub async fn close_for_exit(&self) {
        self.finish(ShutdownMode::KeepLog).await;
    }

    async fn finish(&self, ending: ShutdownMode) {
        self.tokens.close();
        self.reader.lock().await.close().await;
        let (reply, closed) = oneshot::channel();
        if self.commands.send(WriterCommand::Close { ending, reply }).await.is_ok() {
            // A dropped reply means that the writer has already ended: the store is closed anyway.
            let _ = closed.await;
        }
    }

    /// Sends a command to the writer and waits for the reply.
    pub(crate) async fn send<T, E: From<RecordError>>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> WriterCommand,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| RecordError::Ended)?;
        answer.await.map_err(|_| RecordError::Ended)?
    }

    /// Waits until every record of this process that was answered is committed.
    pub(crate) async fn catch_up(&self) {
        if self.behind.is_behind() {
            // If the database refuses, the caller reads without the records; the writer logs the error and retries.
            let _ = self
                .send::<(), RecordError>(|reply| WriterCommand::CatchUp { reply })
                .await;
        }
    }

    /// The connection for queries, held for one query; it sees every record that was answered.
    pub(crate) fn reader(&self) -> Pin<Box<dyn Future<Output = MutexGuard<'_, ReadConnection>> + Send + '_>> {
        Box::pin(async move {
            self.catch_up().await;
            self.reader.lock().await
        })
    }
}

impl Recorder for Store {
    async fn record(&self, event: Event) -> Result<RecordPosition, RecordError> {
        let event = Box::new(event);
        let change = None;
        self.send(|reply| WriterCommand::Record { event, change, reply }).await
    }
}

/// A database that is open for writing, with its signer and settings.
pub(crate) struct OpenedDatabase {
    pub(crate) home: Home,
    pub(crate) connection: Connection,
    pub(crate) signer: HeadSigner,
    /// How long a commit waits for another process's commit.
    pub(crate) busy_timeout: Duration,
    /// The identity of the database file.
    pub(crate) file: Option<DatabaseFile>,
    /// The loss found at opening.
    pub(crate) lost: Option<JournalLoss>,
}

impl OpenedDatabase {
    /// Opens the database, or creates it. May wait for other processes.
    fn open_at(home: &Path, on_loss: LossHandling) -> Result<OpenedDatabase, OpenStoreError> {
        let home = Home::prepare(home)?;
        let found = home.database_presence()?;
        let signer = home.signer(found)?;
        let mut connection = match found {
            DatabasePresence::Present => open_existing(&home)?,
            DatabasePresence::Missing => create(&home)?,
        };
        let lost = loss::check_at_opening(&home, &mut connection, &signer)?;
        match lost {
            None => merge_dead_leases(&home, &connection),
            Some(missing) if on_loss == LossHandling::Refuse => {
                let path = home.database_path();
                return Err(OpenStoreError::Lost { path, loss: missing });
            }
            Some(_) => {}
        }
        Ok(OpenedDatabase {
            file: home.database_file().ok().flatten(),
            home,
            connection,
            signer,
            busy_timeout: database::BUSY_TIMEOUT,
            lost,
        })
    }
}

/// Merges the write-ahead files of dead processes into the database. A file that cannot be merged stays for the next attempt.
fn merge_dead_leases(home: &Home, connection: &Connection) {
    let run = home.run_folder();
    for lease in lease::leases_with_write_ahead(&run) {
        let Some(dead) = lease::lock_dead_lease(&run, lease) else {
            continue;
        };
        if let Err(error) = write_ahead::merge(connection, &run, dead.id()) {
            tracing::warn!(%error, %lease, "what a dead process wrote ahead is not in the journal yet");
        }
    }
}

fn open_existing(home: &Home) -> Result<Connection, OpenStoreError> {
    let path = home.database_path();
    let cut = database::is_truncated(&path).map_err(|source| OpenStoreError::File {
        path: path.clone(),
        source,
    })?;
    let connection = database::open_migrated(path.clone())?;
    // A checkpoint of another process can look like a truncation for a moment: the integrity check decides.
    let whole = !cut
        || database::passes_quick_check(&connection)
            .map_err(|source| OpenStoreError::from_database(path.clone(), source))?;
    if whole {
        Ok(connection)
    } else {
        Err(OpenStoreError::Damaged {
            path,
            what: "the file was cut short".to_owned(),
        })
    }
}

fn create(home: &Home) -> Result<Connection, OpenStoreError> {
    let _lock = home.creation_lock()?;
    let path = home.database_path();
    if home.database_presence()? == DatabasePresence::Missing {
        loss::check_database_gone(home)?;
        home.create_database()?;
    }
    database::open_migrated(path)
}

#[cfg(test)]
mod tests;
