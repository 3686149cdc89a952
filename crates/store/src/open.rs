//! Opens the store and implements the port through which events are written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use ringfence_journal::{
    Event, KeyError, LOST_HINT, LeaseId, NoEntropy, PublicKey, RecordError, Recorded, Recorder, Signer,
};
use rusqlite::Connection;
use sqlx::SqliteConnection;
use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};

use crate::database::{self, ReadError, Trouble};
use crate::home::{DatabaseFile, Found, Home};
use crate::loss::{self, Loss, OnLoss};
use crate::seal::Seals;
use crate::sink::{Remote, Sink, SinkError, Sinks};
use crate::writer::{Behind, Command, Ending, Writer};
use crate::{ahead, lease};

/// Commands that may be queued for the writer before senders must wait.
const WAITING: usize = 1024;

/// The store: the journal, sessions and leases of one data folder.
pub struct Store {
    pub(crate) home: Home,
    pub(crate) key: PublicKey,
    loss: Option<Loss>,
    commands: mpsc::Sender<Command>,
    behind: Behind,
    reader: Mutex<Option<SqliteConnection>>,
    pub(crate) seals: Seals,
    /// The lease under which this process owns sessions.
    pub(crate) lease: std::sync::Mutex<Option<LeaseId>>,
    /// The connection for access token queries.
    pub(crate) gate: std::sync::Mutex<Option<Connection>>,
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
pub enum OpenError {
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
        loss: Loss,
    },
    /// An audit sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[source] SinkError),
}

/// The hint for a missing database: there is nothing left to inspect.
const GONE_HINT: &str =
    "restore the data folder from a copy, or begin a new journal without it by `ringfence audit accept-loss`";

impl OpenError {
    pub(crate) fn from_database(path: PathBuf, source: rusqlite::Error) -> OpenError {
        match Trouble::of_write(&source) {
            Trouble::Full => OpenError::Full { path, source },
            Trouble::Locked => OpenError::Locked { path, source },
            Trouble::Damaged => OpenError::Damaged {
                path,
                what: source.to_string(),
            },
            Trouble::Taken | Trouble::Other => OpenError::Database { path, source },
        }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            OpenError::Folder { .. } | OpenError::File { .. } | OpenError::NotAFile { .. } => "store.folder",
            OpenError::Exposed { .. } => "store.exposed",
            OpenError::KeyMissing { .. } | OpenError::Key { .. } | OpenError::Entropy(_) => "store.key",
            OpenError::Damaged { .. } | OpenError::NotOurs { .. } => "store.damaged",
            OpenError::Locked { .. } => "store.locked",
            OpenError::Full { .. } => "store.full",
            OpenError::Version { .. } => "store.version",
            OpenError::Database { .. } => "store.open",
            OpenError::Lost { .. } => "journal.lost",
            OpenError::Sink(_) => "store.sink",
        }
    }

    /// What a person can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OpenError::Exposed { .. } => Some("take the permissions of group and others away"),
            OpenError::KeyMissing { .. } | OpenError::Key { .. } => {
                Some("restore the key from a copy, or move the whole data folder away to begin a new journal")
            }
            OpenError::Damaged { .. } | OpenError::NotOurs { .. } | OpenError::NotAFile { .. } => {
                Some("restore the data folder from a copy, or move it away to begin a new journal")
            }
            OpenError::Locked { .. } => Some("another program holds the database open for writing; end it, then retry"),
            OpenError::Full { .. } => Some("free space where the data folder lies, then retry"),
            OpenError::Version { .. } => Some("use the newer program, or another data folder"),
            OpenError::Lost {
                loss: Loss::DatabaseGone { .. },
                ..
            } => Some(GONE_HINT),
            OpenError::Lost { .. } => Some(LOST_HINT),
            OpenError::Folder { .. }
            | OpenError::File { .. }
            | OpenError::Entropy(_)
            | OpenError::Database { .. }
            | OpenError::Sink(_) => None,
        }
    }
}

impl Store {
    /// Opens the store in this folder; creates it if nothing is there.
    pub async fn open(home: &Path) -> Result<Store, OpenError> {
        Store::open_with(home, &[]).await
    }

    /// As [`Store::open`], with live sinks that get every record after its commit.
    pub async fn open_with(home: &Path, sinks: &[Sink]) -> Result<Store, OpenError> {
        Store::open_to(home, sinks, Vec::new()).await
    }

    /// As [`Store::open`], for reading: opens even with missing records. In that case nothing is written except stop requests.
    pub async fn open_to_read(home: &Path) -> Result<Store, OpenError> {
        let opened = Store::opened(home, OnLoss::ReadOnly).await?;
        let sinks = Sinks::start(&[], Vec::new()).map_err(OpenError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    /// As [`Store::open_with`], with remote sinks in addition.
    pub async fn open_to(home: &Path, sinks: &[Sink], remotes: Vec<Remote>) -> Result<Store, OpenError> {
        let opened = Store::opened(home, OnLoss::Refuse).await?;
        let sinks = Sinks::start(sinks, remotes).map_err(OpenError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    async fn opened(home: &Path, on_loss: OnLoss) -> Result<Opened, OpenError> {
        let path = home.to_owned();
        let opened = tokio::task::spawn_blocking(move || Opened::at(&path, on_loss)).await;
        // The blocking task panicked, or the process is shutting down.
        opened.map_err(|error| OpenError::Folder {
            path: home.to_owned(),
            source: io::Error::other(error),
        })?
    }

    /// Starts the writer on an open database.
    fn start(opened: Opened, sinks: Sinks) -> Store {
        let (commands, inbox) = mpsc::channel(WAITING);
        let (home, key, loss) = (opened.home.clone(), opened.signer.public(), opened.lost);
        let seals = Seals::of(&home);
        let behind = Behind::default();
        tokio::spawn(Writer::new(opened, sinks, seals.clone(), behind.clone()).run(inbox));
        Store {
            home,
            key,
            loss,
            commands,
            behind,
            reader: Mutex::new(None),
            seals,
            lease: std::sync::Mutex::new(None),
            gate: std::sync::Mutex::new(None),
        }
    }

    /// The public half of the key that signs heads.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The loss found at opening. If there is one, nothing is written.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// The absolute path of the data folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Waits until everything is written and the database is closed. Later records are refused.
    pub async fn close(&self) {
        self.end(Ending::Fold).await;
    }

    /// As [`Store::close`], for a process that exits now: everything is written, but the database's log is left for the next process, which
    /// saves the wait for the disk.
    pub async fn leave(&self) {
        self.end(Ending::Leave).await;
    }

    async fn end(&self, ending: Ending) {
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(reader) = self.reader.lock().await.take() {
            database::close(reader).await;
        }
        let (reply, closed) = oneshot::channel();
        if self.commands.send(Command::Close { ending, reply }).await.is_ok() {
            // A dropped reply means that the writer has already ended: the store is closed anyway.
            let _ = closed.await;
        }
    }

    /// Sends a command to the writer and waits for the reply.
    pub(crate) async fn send<T, E: From<RecordError>>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Command,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| RecordError::Ended)?;
        answer.await.map_err(|_| RecordError::Ended)?
    }

    /// Waits until every record of this process that was answered is committed.
    pub(crate) async fn caught_up(&self) {
        if self.behind.is_behind() {
            // If the database refuses, the caller reads without the records; the writer logs the error and retries.
            let _ = self.send::<(), RecordError>(|reply| Command::CatchUp { reply }).await;
        }
    }

    /// The connection for queries, opened at the first use.
    pub(crate) async fn reader(&self) -> Result<Reader<'_>, ReadError> {
        self.caught_up().await;
        let mut guard = self.reader.lock().await;
        if guard.is_none() {
            *guard = Some(database::connect_reader(&self.home.database()).await?);
        }
        Ok(Reader(guard))
    }
}

/// The query connection, held for one query.
pub(crate) struct Reader<'a>(MutexGuard<'a, Option<SqliteConnection>>);

impl Reader<'_> {
    pub(crate) fn connection(&mut self) -> Result<&mut SqliteConnection, ReadError> {
        self.0.as_mut().ok_or(ReadError::Database(sqlx::Error::PoolClosed))
    }
}

impl Recorder for Store {
    async fn record(&self, event: Event) -> Result<Recorded, RecordError> {
        let event = Box::new(event);
        let change = None;
        self.send(|reply| Command::Record { event, change, reply }).await
    }
}

/// A database that is open for writing, with its signer and settings.
pub(crate) struct Opened {
    pub(crate) home: Home,
    pub(crate) connection: Connection,
    pub(crate) signer: Signer,
    /// How long a commit waits for another process's commit.
    pub(crate) patience: Duration,
    /// The identity of the database file.
    pub(crate) file: Option<DatabaseFile>,
    /// The loss found at opening.
    pub(crate) lost: Option<Loss>,
}

impl Opened {
    /// Opens the database, or creates it. May wait for other processes.
    fn at(home: &Path, on_loss: OnLoss) -> Result<Opened, OpenError> {
        let home = Home::prepare(home)?;
        let found = home.found()?;
        let signer = home.signer(found)?;
        let mut connection = match found {
            Found::Database => open_existing(&home)?,
            Found::Nothing => create(&home)?,
        };
        let lost = loss::at_opening(&home, &mut connection, &signer)?;
        match lost {
            None => take_over(&home, &connection),
            Some(missing) if on_loss == OnLoss::Refuse => {
                let path = home.database();
                return Err(OpenError::Lost { path, loss: missing });
            }
            Some(_) => {}
        }
        Ok(Opened {
            file: home.database_file().ok().flatten(),
            home,
            connection,
            signer,
            patience: database::BUSY,
            lost,
        })
    }
}

/// Merges the write-ahead files of dead processes into the database. A file that cannot be merged stays for the next attempt.
fn take_over(home: &Home, connection: &Connection) {
    let run = home.run();
    for lease in lease::ahead(&run) {
        let Some(dead) = lease::find_dead(&run, lease) else {
            continue;
        };
        if let Err(error) = ahead::merge(connection, &run, dead.id()) {
            tracing::warn!(%error, %lease, "what a dead process wrote ahead is not in the journal yet");
        }
    }
}

fn open_existing(home: &Home) -> Result<Connection, OpenError> {
    let path = home.database();
    let cut = database::is_cut(&path).map_err(|source| OpenError::File {
        path: path.clone(),
        source,
    })?;
    let connection = database::open(path.clone())?;
    // A checkpoint of another process can look like a truncation for a moment: the integrity check decides.
    let whole =
        !cut || database::is_whole(&connection).map_err(|source| OpenError::from_database(path.clone(), source))?;
    if whole {
        Ok(connection)
    } else {
        Err(OpenError::Damaged {
            path,
            what: "the file was cut short".to_owned(),
        })
    }
}

fn create(home: &Home) -> Result<Connection, OpenError> {
    let _lock = home.creation_lock()?;
    let path = home.database();
    if home.found()? == Found::Nothing {
        loss::check_database_gone(home)?;
        home.create_database()?;
    }
    database::open(path)
}

#[cfg(test)]
mod tests;
