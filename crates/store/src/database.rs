//! The database: connections, schema version, and the classes of its errors.
//!
//! Writing runs on the caller's thread; reading goes through [`crate::query`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{ContentHash, RecordError, SharedCause};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::OpenStoreError;
use crate::query::QueryRow;
use crate::seal::SealError;

/// `rfnc`: marks a database of this program.
const APPLICATION_ID: i64 = 0x7266_6e63;

/// Each migration takes the database from version `index` to the next.
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
    include_str!("../migrations/0012_session_policies.sql"),
];

/// How long a connection waits for another process's commit.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The class of a `SQLite` error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqliteErrorClass {
    Full,
    Locked,
    Damaged,
    ConstraintViolated,
    Other,
}

impl SqliteErrorClass {
    /// The class of an error.
    pub(crate) fn from_rusqlite(error: &rusqlite::Error) -> SqliteErrorClass {
        SqliteErrorClass::from_code(error.sqlite_error().map(|error| error.extended_code))
    }

    /// Maps the result code; the extended part matters only where stated.
    fn from_code(code: Option<i32>) -> SqliteErrorClass {
        match code.map(|code| code & 0xff) {
            Some(13) => SqliteErrorClass::Full,
            Some(5 | 6) => SqliteErrorClass::Locked,
            Some(11 | 26) => SqliteErrorClass::Damaged,
            // A constraint: the position in the chain, or the name, is already used.
            Some(19) => SqliteErrorClass::ConstraintViolated,
            // There is no space for the index of the log.
            Some(10) if code == Some(4874) => SqliteErrorClass::Full,
            // An I/O error on reading less than a page means that the file was truncated.
            Some(10) if code == Some(522) => SqliteErrorClass::Damaged,
            _ => SqliteErrorClass::Other,
        }
    }
}

/// Maps a database error to the error of a record.
pub(crate) fn record_error(error: rusqlite::Error) -> RecordError {
    let trouble = SqliteErrorClass::from_rusqlite(&error);
    let source: SharedCause = Arc::new(error);
    match trouble {
        SqliteErrorClass::Full => RecordError::Full { source },
        SqliteErrorClass::Locked => RecordError::Locked { source },
        SqliteErrorClass::Damaged => RecordError::Damaged { source },
        SqliteErrorClass::ConstraintViolated | SqliteErrorClass::Other => RecordError::Write { source },
    }
}

/// Why the store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The database returned an error.
    #[error("cannot read the journal")]
    Database(#[source] rusqlite::Error),
    /// The program ends while it reads.
    #[error("reading the journal was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The socket on which other processes tell of stops and answers cannot be read.
    #[error("cannot be told of stops and answers")]
    Wake(#[source] std::io::Error),
    /// A row holds what this program never writes.
    #[error("a row of table `{table}` is damaged: column `{column}`")]
    Row {
        /// The name of the table.
        table: &'static str,
        /// The name of the column.
        column: &'static str,
    },
    /// Sealed data cannot be unsealed.
    #[error("cannot open {what}")]
    Sealed {
        /// A description of the sealed data.
        what: String,
        /// Why it cannot be unsealed.
        source: SealError,
    },
    /// The mark beside the signing key cannot be read.
    #[error("the mark beside the signing key cannot be read: {reason}")]
    Mark {
        /// Why it cannot be read.
        reason: String,
    },
}

impl QueryError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            QueryError::Database(error) => match SqliteErrorClass::from_rusqlite(error) {
                SqliteErrorClass::Full => "store.full",
                SqliteErrorClass::Locked => "store.locked",
                SqliteErrorClass::Damaged => "store.damaged",
                SqliteErrorClass::ConstraintViolated | SqliteErrorClass::Other => "store.read",
            },
            QueryError::Interrupted(_) | QueryError::Wake(_) => "store.read",
            QueryError::Row { .. } | QueryError::Mark { .. } => "store.damaged",
            QueryError::Sealed { source, .. } => source.code(),
        }
    }
}

/// A text column, parsed; the error names the table and column.
pub(crate) fn parse_column<T: std::str::FromStr>(
    row: &QueryRow,
    table: &'static str,
    column: &'static str,
) -> Result<T, QueryError> {
    let text: &str = row.get(column).map_err(|_| QueryError::Row { table, column })?;
    text.parse().map_err(|_| QueryError::Row { table, column })
}

/// A number column that is never negative.
pub(crate) fn unsigned_column(row: &QueryRow, table: &'static str, column: &'static str) -> Result<u64, QueryError> {
    let number: i64 = row.get(column).map_err(|_| QueryError::Row { table, column })?;
    u64::try_from(number).map_err(|_| QueryError::Row { table, column })
}

/// A hash column, stored as 32 bytes.
pub(crate) fn hash_column(
    row: &QueryRow,
    table: &'static str,
    column: &'static str,
) -> Result<ContentHash, QueryError> {
    let bytes: &[u8] = row.get(column).map_err(|_| QueryError::Row { table, column })?;
    ContentHash::try_from(bytes).map_err(|_| QueryError::Row { table, column })
}

/// The database's numbers are signed; the program's numbers stay far below that limit.
pub(crate) fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Opens a connection that can write. The file must exist. The connection waits up to [`BUSY_TIMEOUT`] for others.
pub(crate) fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = open_file(path)?;
    // The writer checkpoints the log in the background, not in a commit that a caller waits for.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0",
    )?;
    Ok(connection)
}

/// Opens a connection for queries only. The file must exist.
pub(crate) fn connect_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = open_file(path)?;
    connection.execute_batch("PRAGMA query_only = ON")?;
    Ok(connection)
}

fn open_file(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Opens the database and migrates it to this program's version.
pub(crate) fn open_migrated(path: PathBuf) -> Result<Connection, OpenStoreError> {
    let trouble = |source| OpenStoreError::from_database(path.clone(), source);
    let mut connection = connect(&path).map_err(trouble)?;
    let version = read_version(&connection).map_err(trouble)?;
    if (0..newest_version()).contains(&version) {
        migrate(&mut connection, &path)?;
    } else if version != newest_version() {
        return Err(OpenStoreError::Version {
            path,
            found: version,
            known: newest_version(),
        });
    }
    Ok(connection)
}

fn newest_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn read_version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Migrates an older or empty database to this program's version.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenStoreError> {
    let trouble = |source| OpenStoreError::from_database(path.to_owned(), source);
    // If it is dropped without a commit, the transaction is rolled back.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(trouble)?;
    // Another process may have migrated it first.
    let found = read_version(&transaction).map_err(trouble)?;
    if found >= newest_version() {
        return Ok(());
    }
    let strangers: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(trouble)?;
    if found == 0 && strangers > 0 {
        return Err(OpenStoreError::NotOurs { path: path.to_owned() });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration).map_err(trouble)?;
    }
    let stamp = format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}",
        newest_version()
    );
    transaction.execute_batch(&stamp).map_err(trouble)?;
    transaction.commit().map_err(trouble)
}

/// Whether the file is shorter than its header states and has no log that could hold the rest.
pub(crate) fn is_truncated(path: &Path) -> std::io::Result<bool> {
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

/// Runs the database's quick integrity check; slow, so used only on suspicion.
pub(crate) fn passes_quick_check(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(answer == "ok")
}
