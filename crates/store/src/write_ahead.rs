//! Write-ahead records: they are safe on disk but not yet committed. A file beside the lease of their process holds them until then.
//!
//! Each row carries a digest over its content, so a row that was cut off by a crash is ignored, and so are the remains of an earlier use of
//! the file behind its end. Merging a row that the database already has changes nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_journal::{ChainTip, ContentHash, LeaseId, Record, SessionId};
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::database::to_signed;
use crate::writer::{SealedPiece, last_record};

/// The most rows of one statement: the database caches the prepared statements up to this size.
const MAX_STATEMENT_ROWS: usize = 8;
const INSERT: &str = "INSERT INTO events (session, seq, prev, json, hash, execution, piece, total, sealed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const NEXT_VALUES: &str = ", (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// A record and the sealed replay entries of its execution, if there are any.
#[derive(Debug)]
pub(crate) struct WriteAheadRow {
    pub(crate) record: Record,
    pub(crate) piece: Option<SealedPiece>,
}

/// A larger write-ahead file was not written by this program.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Why the write-ahead file of a dead process cannot be merged into the database. The file stays for the next attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The write-ahead file cannot be read or removed.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The write-ahead file concerned.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The database returned an error.
    #[error("the database refused")]
    Database(#[from] rusqlite::Error),
    /// The blocking task panicked, or the process is shutting down.
    #[error("it was broken off")]
    Broken(#[source] tokio::task::JoinError),
}

/// The suffix of a write-ahead file, after the id of its lease.
pub(crate) const SUFFIX: &str = ".ahead";

/// The extension of a write-ahead file that was rejected.
const REJECTED_SUFFIX: &str = "rejected";

/// The path of a lease's write-ahead file.
pub(crate) fn file_path(run: &Path, lease: LeaseId) -> PathBuf {
    run.join(format!("{lease}{SUFFIX}"))
}

/// Appends one row in the format of the write-ahead file.
pub(crate) fn encode_row(record: &Record, piece: Option<&SealedPiece>, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; LENGTH_BYTES + DIGEST_BYTES]);
    put_field(into, record.session.to_string().as_bytes());
    into.extend_from_slice(&record.seq.to_le_bytes());
    into.extend_from_slice(record.prev.as_bytes());
    put_field(into, record.json.as_bytes());
    into.extend_from_slice(record.hash.as_bytes());
    if let Some(piece) = piece {
        put_field(into, piece.execution.to_string().as_bytes());
        into.extend_from_slice(&piece.n.to_le_bytes());
        into.extend_from_slice(&piece.total.to_le_bytes());
        put_field(into, &piece.sealed);
    }
    let body = start + LENGTH_BYTES + DIGEST_BYTES;
    let length = (into.len() - body) as u64;
    let digest = ContentHash::digest(into.get(body..).unwrap_or_default());
    let head = into.get_mut(start..body).unwrap_or_default();
    let (first, second) = head.split_at_mut(LENGTH_BYTES);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(digest.as_bytes());
}

const LENGTH_BYTES: usize = size_of::<u64>();
const DIGEST_BYTES: usize = 32;

fn put_field(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    into.extend_from_slice(bytes);
}

/// Decodes the rows at the start of `bytes`, up to the first that is incomplete or damaged.
pub(crate) fn decode_rows(mut bytes: &[u8]) -> Vec<WriteAheadRow> {
    std::iter::from_fn(|| {
        let mut rest = RowParser(bytes);
        let length = rest.take_number()?;
        let digest = rest.take_digest()?;
        let body = rest.take_bytes(length)?;
        bytes = rest.0;
        (ContentHash::digest(body) == digest)
            .then(|| RowParser(body).into_row())
            .flatten()
    })
    .collect()
}

/// The bytes that are still to be parsed.
struct RowParser<'a>(&'a [u8]);

impl<'a> RowParser<'a> {
    fn take_bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_number(&mut self) -> Option<u64> {
        let bytes = self.take_bytes(LENGTH_BYTES as u64)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn take_digest(&mut self) -> Option<ContentHash> {
        self.take_bytes(DIGEST_BYTES as u64)?.try_into().ok()
    }

    fn take_field(&mut self) -> Option<&'a [u8]> {
        let length = self.take_number()?;
        self.take_bytes(length)
    }

    fn take_text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.take_field()?).ok()
    }

    fn into_row(mut self) -> Option<WriteAheadRow> {
        let record = Record {
            session: self.take_text()?.parse().ok()?,
            seq: self.take_number()?,
            prev: self.take_digest()?,
            json: self.take_text()?.to_owned(),
            hash: self.take_digest()?,
        };
        let piece = if self.0.is_empty() {
            None
        } else {
            Some(SealedPiece {
                execution: self.take_text()?.parse().ok()?,
                session: record.session,
                n: self.take_number()?.cast_signed(),
                total: self.take_number()?.cast_signed(),
                sealed: self.take_field()?.to_vec(),
            })
        };
        self.0.is_empty().then_some(WriteAheadRow { record, piece })
    }
}

/// Inserts rows in a commit of their own.
pub(crate) fn insert_rows(connection: &Connection, rows: &[WriteAheadRow]) -> Result<(), rusqlite::Error> {
    if rows.len() <= MAX_STATEMENT_ROWS {
        // A single statement is a commit of its own.
        return insert_chunk(connection, rows);
    }
    in_transaction(connection, || insert_rows_in_transaction(connection, rows))
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, rusqlite::Error>,
) -> Result<T, rusqlite::Error> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| connection.execute_batch("COMMIT").map(|()| done));
    if done.is_err()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        // Some failures end the transaction by themselves.
        tracing::debug!(%error, "no transaction was left to roll back");
    }
    done
}

/// Inserts rows as part of the current transaction.
pub(crate) fn insert_rows_in_transaction(
    connection: &Connection,
    rows: &[WriteAheadRow],
) -> Result<(), rusqlite::Error> {
    let mut parts = rows.chunks(MAX_STATEMENT_ROWS);
    parts.try_for_each(|rows| insert_chunk(connection, rows))
}

fn insert_chunk(connection: &Connection, rows: &[WriteAheadRow]) -> Result<(), rusqlite::Error> {
    let statement = format!("{INSERT}{}", NEXT_VALUES.repeat(rows.len().saturating_sub(1)));
    let values = params_from_iter(rows.iter().flat_map(row_values));
    connection.prepare_cached(&statement)?.execute(values).map(drop)
}

fn row_values(row: &WriteAheadRow) -> [ToSqlOutput<'_>; 9] {
    let WriteAheadRow { record, piece } = row;
    let [execution, number, total, sealed] = match piece {
        Some(piece) => [
            piece.execution.to_string().into(),
            piece.n.into(),
            piece.total.into(),
            piece.sealed.as_slice().into(),
        ],
        None => [const { ToSqlOutput::Owned(Value::Null) }; 4],
    };
    [
        record.session.to_string().into(),
        to_signed(record.seq).into(),
        record.prev.as_bytes().as_slice().into(),
        record.json.as_str().into(),
        record.hash.as_bytes().as_slice().into(),
        execution,
        number,
        total,
        sealed,
    ]
}

/// Whether the database has exactly this record.
pub(crate) fn has_record(connection: &Connection, record: &Record) -> Result<bool, rusqlite::Error> {
    let hash: Option<Vec<u8>> = connection
        .prepare_cached("SELECT hash FROM events WHERE session = ? AND seq = ?")?
        .query_row((record.session.to_string(), to_signed(record.seq)), |row| row.get(0))
        .optional()?;
    Ok(hash.is_some_and(|hash| hash == record.hash.as_bytes()))
}

/// Merges the write-ahead file of a dead process into the database and removes it. A file with anything else in it, or with records that do
/// not fit, is rejected: it is renamed, so that it does not block the start.
pub(crate) fn merge(connection: &Connection, run: &Path, lease: LeaseId) -> Result<(), MergeError> {
    let path = file_path(run, lease);
    let done = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= MAX_FILE_BYTES => match fs::read(&path) {
            Ok(bytes) => merge_file(connection, &path, &bytes)?,
            Err(error) => Err(error),
        },
        Ok(_) => put_aside(&path, "a dead process left what is no file of records"),
        Err(error) => Err(error),
    };
    match done {
        // Another process may have merged it first.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(MergeError::File { path, source: error }),
        _ => Ok(()),
    }
}

/// Merges the rows of a file, then removes the file or rejects it.
fn merge_file(connection: &Connection, path: &Path, bytes: &[u8]) -> Result<io::Result<()>, rusqlite::Error> {
    let taken = in_transaction(connection, || merge_rows(connection, decode_rows(bytes)))?;
    tracing::info!(file = %path.display(), records = taken.records, "took over what a dead process had written ahead");
    Ok(if taken.is_all {
        fs::remove_file(path)
    } else {
        put_aside(
            path,
            "a dead process left records that do not follow on those of the journal",
        )
    })
}

fn put_aside(path: &Path, why: &'static str) -> io::Result<()> {
    let aside = path.with_extension(REJECTED_SUFFIX);
    tracing::error!(file = %aside.display(), "{why}: it was put aside");
    fs::rename(path, aside)
}

/// Rejected write-ahead files of this data folder: their records do not fit into the journal. They stay for inspection.
pub fn rejected_files(home: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(home.join("run")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut aside = Vec::new();
    for entry in found {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == REJECTED_SUFFIX) {
            aside.push(path);
        }
    }
    aside.sort();
    Ok(aside)
}

/// The result of merging the rows of a file.
struct MergedRows {
    records: usize,
    is_all: bool,
}

/// Inserts the rows that the database lacks and that continue its chains.
fn merge_rows(connection: &Connection, rows: Vec<WriteAheadRow>) -> Result<MergedRows, rusqlite::Error> {
    let mut ends: HashMap<SessionId, ChainTip> = HashMap::new();
    let mut missing = Vec::new();
    let mut is_all = true;
    for row in rows {
        let session = row.record.session;
        let end = match ends.get(&session) {
            Some(end) => *end,
            None => last_record(connection, session)?,
        };
        if row.record.seq <= end.seq {
            is_all &= has_record(connection, &row.record)?;
        } else if row.record.follows(end) {
            ends.insert(session, row.record.tip());
            missing.push(row);
        } else {
            is_all = false;
        }
    }
    insert_rows_in_transaction(connection, &missing)?;
    Ok(MergedRows {
        records: missing.len(),
        is_all,
    })
}

#[cfg(test)]
mod tests;
