//! The database: connecting, its version, and what its errors mean.
//!
//! What writes is a connection of `rusqlite`, which works on the caller's own thread; what only asks is one of `sqlx`. Both are the
//! same `SQLite` of this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{Cause, Hash, RecordError};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection};

use crate::OpenError;
use crate::seal::SealError;

/// `rfnc`: says that a database is ours.
const APPLICATION: i64 = 0x7266_6e63;

/// Each migration takes the database from its index to the next version.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_journal.sql"),
    include_str!("../migrations/0002_tokens.sql"),
    include_str!("../migrations/0003_undelivered.sql"),
    include_str!("../migrations/0004_recordings.sql"),
    include_str!("../migrations/0005_aliases.sql"),
    include_str!("../migrations/0006_workspaces.sql"),
    include_str!("../migrations/0007_pieces.sql"),
    include_str!("../migrations/0008_bounds.sql"),
    include_str!("../migrations/0009_claims.sql"),
    include_str!("../migrations/0010_promises.sql"),
    include_str!("../migrations/0011_promises_by_principal.sql"),
];

/// How long a connection waits for another process's commit.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// What the database's refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Full,
    Locked,
    Damaged,
    Taken,
    Other,
}

impl Trouble {
    /// What a question's error means.
    pub(crate) fn of(error: &sqlx::Error) -> Trouble {
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .and_then(|code| code.parse().ok());
        Trouble::of_code(code)
    }

    /// What an error of the writing side means.
    pub(crate) fn of_write(error: &rusqlite::Error) -> Trouble {
        Trouble::of_code(error.sqlite_error().map(|error| error.extended_code))
    }

    /// Reads the result code, without its extension.
    fn of_code(code: Option<i32>) -> Trouble {
        match code.map(|code| code & 0xff) {
            Some(13) => Trouble::Full,
            Some(5 | 6) => Trouble::Locked,
            Some(11 | 26) => Trouble::Damaged,
            // A constraint: the place in the chain, or the name, is taken.
            Some(19) => Trouble::Taken,
            // No room for the index of the log.
            Some(10) if code == Some(4874) => Trouble::Full,
            // An I/O error on reading less than a page means that the file was cut.
            Some(10) if code == Some(522) => Trouble::Damaged,
            _ => Trouble::Other,
        }
    }
}

/// A record's error from the database's.
pub(crate) fn record_error(error: rusqlite::Error) -> RecordError {
    let trouble = Trouble::of_write(&error);
    let source: Cause = Arc::new(error);
    match trouble {
        Trouble::Full => RecordError::Full { source },
        Trouble::Locked => RecordError::Locked { source },
        Trouble::Damaged => RecordError::Damaged { source },
        Trouble::Taken | Trouble::Other => RecordError::Write { source },
    }
}

/// The store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database refused.
    #[error("cannot read the journal")]
    Database(#[source] sqlx::Error),
    /// A row holds what this program never writes.
    #[error("a row of table `{table}` is damaged: column `{column}`")]
    Row {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// Something sealed cannot be opened.
    #[error("cannot open {what}")]
    Sealed {
        /// What.
        what: String,
        /// Why not.
        source: SealError,
    },
    /// The mark beside the signing key cannot be read.
    #[error("the mark beside the signing key cannot be read: {reason}")]
    Mark {
        /// Why not.
        reason: String,
    },
}

impl ReadError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            ReadError::Database(error) => match Trouble::of(error) {
                Trouble::Full => "store.full",
                Trouble::Locked => "store.locked",
                Trouble::Damaged => "store.damaged",
                Trouble::Taken | Trouble::Other => "store.read",
            },
            ReadError::Row { .. } | ReadError::Mark { .. } => "store.damaged",
            ReadError::Sealed { source, .. } => source.code(),
        }
    }
}

/// A text column, parsed; a damaged one names its place.
pub(crate) fn parsed<T: std::str::FromStr>(
    row: &SqliteRow,
    table: &'static str,
    column: &'static str,
) -> Result<T, ReadError> {
    let text: &str = row.try_get(column).map_err(|_| ReadError::Row { table, column })?;
    text.parse().map_err(|_| ReadError::Row { table, column })
}

/// A number that is never negative.
pub(crate) fn number(row: &SqliteRow, table: &'static str, column: &'static str) -> Result<u64, ReadError> {
    let number: i64 = row.try_get(column).map_err(|_| ReadError::Row { table, column })?;
    u64::try_from(number).map_err(|_| ReadError::Row { table, column })
}

/// A digest kept as bytes.
pub(crate) fn digest(row: &SqliteRow, table: &'static str, column: &'static str) -> Result<Hash, ReadError> {
    let bytes: &[u8] = row.try_get(column).map_err(|_| ReadError::Row { table, column })?;
    Hash::try_from(bytes).map_err(|_| ReadError::Row { table, column })
}

/// The database's numbers are signed; ours stay far below.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A connection that can write. The file must be there. It waits [`BUSY`] for others.
pub(crate) fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY)?;
    // The log is folded beside the road, not in a commit that somebody waits for.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0",
    )?;
    Ok(connection)
}

/// A connection for questions only.
pub(crate) async fn connect_reader(path: &Path) -> Result<SqliteConnection, ReadError> {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY)
        .foreign_keys(true)
        .disable_statement_logging()
        .pragma("query_only", "ON")
        .connect()
        .await
        .map_err(ReadError::Database)
}

/// Opens the database and brings it to this program's version.
pub(crate) fn open(path: PathBuf) -> Result<Connection, OpenError> {
    let trouble = |source| OpenError::from_database(path.clone(), source);
    let mut connection = connect(&path).map_err(trouble)?;
    let version = version(&connection).map_err(trouble)?;
    if (0..known()).contains(&version) {
        migrate(&mut connection, &path)?;
    } else if version != known() {
        return Err(OpenError::Version {
            path,
            found: version,
            known: known(),
        });
    }
    Ok(connection)
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings an older database, or an empty one, to this program's version.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let trouble = |source| OpenError::from_database(path.to_owned(), source);
    // Dropped without a commit, it is rolled back.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(trouble)?;
    // Another process may have been faster.
    let found = version(&transaction).map_err(trouble)?;
    if found >= known() {
        return Ok(());
    }
    let strangers: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(trouble)?;
    if found == 0 && strangers > 0 {
        return Err(OpenError::NotOurs { path: path.to_owned() });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration).map_err(trouble)?;
    }
    let stamp = format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}",
        known()
    );
    transaction.execute_batch(&stamp).map_err(trouble)?;
    transaction.commit().map_err(trouble)
}

/// Whether the file is shorter than its own header says, with no log that could hold the rest.
pub(crate) fn is_cut(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(log).is_ok_and(|data| data.len() > 0) {
        return Ok(false);
    }
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut header = [0; 100];
    if file.read_exact(&mut header).is_err() {
        return Ok(true);
    }
    // Bytes 16-17: page size, 1 meaning 65536; bytes 28-31: number of pages.
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Ok(page * u64::from(pages) > length)
}

/// Asks the database whether it is whole; slow, so asked only on suspicion.
pub(crate) fn is_whole(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(answer == "ok")
}

/// Closes a connection; an error then is only worth a line in the log.
pub(crate) async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the database did not close cleanly");
    }
}
