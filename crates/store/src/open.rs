//! Opening the store, and the port through which events are written.

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

/// Commands that may wait for the writer before their senders wait too.
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
    /// The lease under which this process has sessions.
    pub(crate) lease: std::sync::Mutex<Option<LeaseId>>,
    /// For questions about access tokens.
    pub(crate) gate: std::sync::Mutex<Option<Connection>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("home", &self.home.path())
            .finish_non_exhaustive()
    }
}

/// Why a store does not open. Nothing was changed but folders that were missing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A folder cannot be made or looked at.
    #[error("cannot use the data folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file in the folder cannot be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others could change or read what must be the owner's alone.
    #[error("`{}` is open to others (mode {mode:o})", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The database is not a plain file.
    #[error("`{}` is not a plain file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// There is a database but no key that signed it.
    #[error("the journal's signing key `{}` is missing", path.display())]
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The key's file holds no key.
    #[error("the journal's signing key `{}` cannot be read", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
    /// The system gave no random bytes for a key.
    #[error("cannot make a signing key")]
    Entropy(#[source] NoEntropy),
    /// The database is damaged, cut short or gone.
    #[error("the journal `{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In which way.
        what: String,
    },
    /// Another process holds the database for too long.
    #[error("the journal `{}` is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
    /// No space is left.
    #[error("the journal `{}` cannot grow: the disk is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
    /// The database was written by a newer program.
    #[error("the journal `{}` has version {found}; this program knows {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The database belongs to another program.
    #[error("`{}` is a database of another program", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The database does not open for another reason.
    #[error("cannot open the journal `{}`", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
    /// The journal is not the one that was signed last.
    #[error("nothing is written to the journal `{}`: {loss}", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// What is missing.
        loss: Loss,
    },
    /// A sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[source] SinkError),
}

/// What a person can do about a database that is gone: there is nothing more to see of it.
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

    /// What a person can do about it.
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
    /// Opens the store in this folder, making it where nothing is there.
    pub async fn open(home: &Path) -> Result<Store, OpenError> {
        Store::open_with(home, &[]).await
    }

    /// As [`Store::open`], with live sinks that get every record after its commit.
    pub async fn open_with(home: &Path, sinks: &[Sink]) -> Result<Store, OpenError> {
        Store::open_to(home, sinks, Vec::new()).await
    }

    /// As [`Store::open`], for whoever looks at what is there: also where records are missing. Then nothing is written but stops.
    pub async fn open_to_read(home: &Path) -> Result<Store, OpenError> {
        let opened = Store::opened(home, OnLoss::ReadOnly).await?;
        let sinks = Sinks::start(&[], Vec::new()).map_err(OpenError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    /// As [`Store::open_with`], also with sinks behind the network.
    pub async fn open_to(home: &Path, sinks: &[Sink], remotes: Vec<Remote>) -> Result<Store, OpenError> {
        let opened = Store::opened(home, OnLoss::Refuse).await?;
        let sinks = Sinks::start(sinks, remotes).map_err(OpenError::Sink)?;
        Ok(Store::start(opened, sinks))
    }

    async fn opened(home: &Path, on_loss: OnLoss) -> Result<Opened, OpenError> {
        let path = home.to_owned();
        let opened = tokio::task::spawn_blocking(move || Opened::at(&path, on_loss)).await;
        // The thread broke, or the process ends.
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

    /// What was missing when it was opened: then nothing is written.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// The data folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Waits until everything is written and the database closed. Later records are refused.
    pub async fn close(&self) {
        self.end(Ending::Fold).await;
    }

    /// As [`Store::close`], for a process that ends now: everything is written, but the
    /// database's log is left for the next process, which spares waiting for the disk.
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
            // A dropped reply means that the writer is gone already: closed all the same.
            let _ = closed.await;
        }
    }

    /// Sends a command to the writer and waits for its answer.
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

    /// Waits until the database has all that this process was answered.
    pub(crate) async fn caught_up(&self) {
        if self.behind.is_behind() {
            // What it does not take now nobody reads now; the writer says why, and tries again.
            let _ = self.send::<(), RecordError>(|reply| Command::CatchUp { reply }).await;
        }
    }

    /// The connection for questions, made at the first.
    pub(crate) async fn reader(&self) -> Result<Reader<'_>, ReadError> {
        self.caught_up().await;
        let mut guard = self.reader.lock().await;
        if guard.is_none() {
            *guard = Some(database::connect_reader(&self.home.database()).await?);
        }
        Ok(Reader(guard))
    }
}

/// The connection for questions, held for one of them.
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

/// A database that is open for writing, and what it is written with.
pub(crate) struct Opened {
    pub(crate) home: Home,
    pub(crate) connection: Connection,
    pub(crate) signer: Signer,
    /// How long a commit waits for one of another process.
    pub(crate) patience: Duration,
    /// Which file it is.
    pub(crate) file: Option<DatabaseFile>,
    /// What is missing from it.
    pub(crate) lost: Option<Loss>,
}

impl Opened {
    /// Opens what is there, or makes it. May wait for other processes.
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

/// Puts into the database what processes that are gone had written ahead of it. What cannot be now stays for the next.
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
    // A neighbour's checkpoint can look like a cut for a moment: the database itself knows.
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
