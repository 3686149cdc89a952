//! Records that are safe and not in the database yet: a file beside the lease of their process has them until they are.
//!
//! Each stands for itself, with a digest over all of it: what its process died writing is none, and so is what an earlier use of
//! the file left behind its end. Reading one that the database has changes nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ringfence_journal::{Hash, LeaseId, Link, Record, SessionId};
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::database::signed;
use crate::writer::{Piece, last_record};

/// The most rows of one statement: the database keeps those ready.
const TOGETHER: usize = 8;
const INSERT: &str = "INSERT INTO events (session, seq, prev, json, hash, execution, piece, total, sealed)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const NEXT: &str = ", (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// A record, and what its execution met beside it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) piece: Option<Piece>,
}

/// More is none of ours.
const LONGEST: u64 = 256 * 1024 * 1024;

/// Why what a dead process left cannot be put into the database. It stays for the next who tries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The file cannot be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database refused.
    #[error("the database refused")]
    Database(#[from] rusqlite::Error),
    /// The thread broke, or the process ends.
    #[error("it was broken off")]
    Broken(#[source] tokio::task::JoinError),
}

/// How the name of a file with such records ends, after the lease.
pub(crate) const SUFFIX: &str = ".ahead";

/// How the name of one ends that was put aside.
const ASIDE: &str = "rejected";

/// Where the records of a lease are that the database may not have yet.
pub(crate) fn file_of(run: &Path, lease: LeaseId) -> PathBuf {
    run.join(format!("{lease}{SUFFIX}"))
}

/// Adds a row in the form of the file.
pub(crate) fn write(record: &Record, piece: Option<&Piece>, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[0; LENGTH + DIGEST]);
    put(into, record.session.to_string().as_bytes());
    into.extend_from_slice(&record.seq.to_le_bytes());
    into.extend_from_slice(record.prev.as_bytes());
    put(into, record.json.as_bytes());
    into.extend_from_slice(record.hash.as_bytes());
    if let Some(piece) = piece {
        put(into, piece.execution.to_string().as_bytes());
        into.extend_from_slice(&piece.n.to_le_bytes());
        into.extend_from_slice(&piece.total.to_le_bytes());
        put(into, &piece.sealed);
    }
    let body = start + LENGTH + DIGEST;
    let length = (into.len() - body) as u64;
    let digest = Hash::of(into.get(body..).unwrap_or_default());
    let head = into.get_mut(start..body).unwrap_or_default();
    let (first, second) = head.split_at_mut(LENGTH);
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(digest.as_bytes());
}

const LENGTH: usize = size_of::<u64>();
const DIGEST: usize = 32;

fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    into.extend_from_slice(bytes);
}

/// The rows at the beginning of `bytes`, up to the first that is not whole.
pub(crate) fn read(mut bytes: &[u8]) -> Vec<Row> {
    std::iter::from_fn(|| {
        let mut rest = Bytes(bytes);
        let length = rest.number()?;
        let digest = rest.digest()?;
        let body = rest.take(length)?;
        bytes = rest.0;
        (Hash::of(body) == digest).then(|| Bytes(body).row()).flatten()
    })
    .collect()
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.take(LENGTH as u64)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn digest(&mut self) -> Option<Hash> {
        self.take(DIGEST as u64)?.try_into().ok()
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.part()?).ok()
    }

    fn row(mut self) -> Option<Row> {
        let record = Record {
            session: self.text()?.parse().ok()?,
            seq: self.number()?,
            prev: self.digest()?,
            json: self.text()?.to_owned(),
            hash: self.digest()?,
        };
        let piece = if self.0.is_empty() {
            None
        } else {
            Some(Piece {
                execution: self.text()?.parse().ok()?,
                session: record.session,
                n: self.number()?.cast_signed(),
                total: self.number()?.cast_signed(),
                sealed: self.part()?.to_vec(),
            })
        };
        self.0.is_empty().then_some(Row { record, piece })
    }
}

/// Puts rows into the database, in a commit of their own.
pub(crate) fn insert(connection: &Connection, rows: &[Row]) -> Result<(), rusqlite::Error> {
    if rows.len() <= TOGETHER {
        // One statement is a commit of its own.
        return insert_together(connection, rows);
    }
    in_one_commit(connection, || insert_in(connection, rows))
}

fn in_one_commit<T>(
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

/// The same, as part of the commit that is under way.
pub(crate) fn insert_in(connection: &Connection, rows: &[Row]) -> Result<(), rusqlite::Error> {
    let mut parts = rows.chunks(TOGETHER);
    parts.try_for_each(|rows| insert_together(connection, rows))
}

fn insert_together(connection: &Connection, rows: &[Row]) -> Result<(), rusqlite::Error> {
    let statement = format!("{INSERT}{}", NEXT.repeat(rows.len().saturating_sub(1)));
    let values = params_from_iter(rows.iter().flat_map(values));
    connection.prepare_cached(&statement)?.execute(values).map(drop)
}

fn values(row: &Row) -> [ToSqlOutput<'_>; 9] {
    let Row { record, piece } = row;
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
        signed(record.seq).into(),
        record.prev.as_bytes().as_slice().into(),
        record.json.as_str().into(),
        record.hash.as_bytes().as_slice().into(),
        execution,
        number,
        total,
        sealed,
    ]
}

/// Whether the database has this record.
pub(crate) fn has(connection: &Connection, record: &Record) -> Result<bool, rusqlite::Error> {
    let hash: Option<Vec<u8>> = connection
        .prepare_cached("SELECT hash FROM events WHERE session = ? AND seq = ?")?
        .query_row((record.session.to_string(), signed(record.seq)), |row| row.get(0))
        .optional()?;
    Ok(hash.is_some_and(|hash| hash == record.hash.as_bytes()))
}

/// Puts what a dead process was ahead of the database into it, and removes its file. One that has anything else in it, or is none of
/// ours, is put aside: nobody is kept from starting by it.
pub(crate) fn merge(connection: &Connection, run: &Path, lease: LeaseId) -> Result<(), MergeError> {
    let path = file_of(run, lease);
    let done = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= LONGEST => match fs::read(&path) {
            Ok(bytes) => take_all(connection, &path, &bytes)?,
            Err(error) => Err(error),
        },
        Ok(_) => put_aside(&path, "a dead process left what is no file of records"),
        Err(error) => Err(error),
    };
    match done {
        // Somebody else may be faster.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(MergeError::File { path, source: error }),
        _ => Ok(()),
    }
}

/// Takes over what a file has, then removes it or puts it aside.
fn take_all(connection: &Connection, path: &Path, bytes: &[u8]) -> Result<io::Result<()>, rusqlite::Error> {
    let taken = in_one_commit(connection, || take(connection, read(bytes)))?;
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
    let aside = path.with_extension(ASIDE);
    tracing::error!(file = %aside.display(), "{why}: it was put aside");
    fs::rename(path, aside)
}

/// Files of records that processes left in this data folder and that fit nowhere in its journal: they were put aside, and wait for
/// somebody who looks.
pub fn set_aside(home: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(home.join("run")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut aside = Vec::new();
    for entry in found {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ASIDE) {
            aside.push(path);
        }
    }
    aside.sort();
    Ok(aside)
}

/// What was taken over.
struct Taken {
    records: usize,
    is_all: bool,
}

/// Puts those in that the database lacks and that follow on what it has.
fn take(connection: &Connection, rows: Vec<Row>) -> Result<Taken, rusqlite::Error> {
    let mut ends: HashMap<SessionId, Link> = HashMap::new();
    let mut missing = Vec::new();
    let mut is_all = true;
    for row in rows {
        let session = row.record.session;
        let end = match ends.get(&session) {
            Some(end) => *end,
            None => last_record(connection, session)?,
        };
        if row.record.seq <= end.seq {
            is_all &= has(connection, &row.record)?;
        } else if row.record.follows(end) {
            ends.insert(session, row.record.link());
            missing.push(row);
        } else {
            is_all = false;
        }
    }
    insert_in(connection, &missing)?;
    Ok(Taken {
        records: missing.len(),
        is_all,
    })
}

#[cfg(test)]
mod tests;
