//! Reads the journal: by session, as it grows, and as lines of JSON.

use std::io::{self, Write};
use std::time::Duration;

use ringfence_journal::{Record, SessionId};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use crate::check;
use crate::database::{self, ReadError, signed};
use crate::{Missed, Store};

/// Rows that are read at once; bounds memory.
const PAGE: i64 = 500;

/// How often a follower checks for new commits.
const FOLLOW: Duration = Duration::from_millis(100);

/// A record with its number in the order of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// Its number among all records of the journal.
    pub n: u64,
    /// The record as it was committed.
    pub record: Record,
}

/// The contents of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Records, without the signed heads.
    Records,
    /// Records, then the signed heads: enough to check the chains elsewhere.
    RecordsAndHeads,
}

/// Why an export stops.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The lines cannot be written.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
}

/// Reads a record from its row.
pub(crate) fn record(row: &SqliteRow) -> Result<Record, ReadError> {
    const TABLE: &str = "events";
    Ok(Record {
        session: database::parsed(row, TABLE, "session")?,
        seq: database::number(row, TABLE, "seq")?,
        prev: database::digest(row, TABLE, "prev")?,
        json: row.try_get("json").map_err(|_| ReadError::Row {
            table: TABLE,
            column: "json",
        })?,
        hash: database::digest(row, TABLE, "hash")?,
    })
}

impl Store {
    /// All records of a session, in order.
    pub async fn show(&self, session: SessionId) -> Result<Vec<Record>, ReadError> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT session, seq, prev, json, hash FROM events WHERE session = ? ORDER BY seq")
            .bind(session.to_string())
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        rows.iter().map(record).collect()
    }

    /// Records that sinks missed, in this process or another: one row per sink.
    pub async fn undelivered(&self) -> Result<Vec<Missed>, ReadError> {
        const TABLE: &str = "undelivered";
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT sink, records, since, last, reason FROM undelivered ORDER BY sink")
            .fetch_all(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        let missed = |row: &SqliteRow| {
            Ok(Missed {
                sink: database::parsed(row, TABLE, "sink")?,
                records: database::number(row, TABLE, "records")?,
                since: database::parsed(row, TABLE, "since")?,
                last: database::parsed(row, TABLE, "last")?,
                reason: database::parsed(row, TABLE, "reason")?,
            })
        };
        rows.iter().map(missed).collect()
    }

    /// Follows the journal from its last `count` records on.
    pub async fn tail(&self, count: u32) -> Result<Tail, ReadError> {
        self.caught_up().await;
        let mut connection = database::connect_reader(&self.home.database()).await?;
        let last: Option<i64> = sqlx::query_scalar("SELECT max(n) FROM events")
            .fetch_one(&mut connection)
            .await
            .map_err(ReadError::Database)?;
        let after = last.unwrap_or(0).saturating_sub(i64::from(count)).max(0);
        Ok(Tail {
            connection,
            after,
            version: None,
        })
    }

    /// Follows the journal from record `n` on, without that record.
    pub async fn tail_after(&self, n: u64) -> Result<Tail, ReadError> {
        self.caught_up().await;
        let connection = database::connect_reader(&self.home.database()).await?;
        Ok(Tail {
            connection,
            after: signed(n),
            version: None,
        })
    }

    /// Writes the journal as lines of JSON, one page at a time. Returns the number of records.
    pub async fn export<W: Write>(&self, mut writer: W, contents: Contents) -> Result<u64, ExportError> {
        let mut tail = self.tail_after(0).await?;
        let mut count = 0;
        loop {
            let page = tail.page().await?;
            if page.is_empty() {
                break;
            }
            for numbered in page {
                writeln!(writer, "{}", numbered.record.line()).map_err(ExportError::Write)?;
                count += 1;
            }
        }
        if contents == Contents::RecordsAndHeads {
            let mut after = 0;
            loop {
                let heads = check::heads(&mut tail.connection, after).await?;
                let Some(last) = heads.last() else { break };
                after = last.head.n;
                for head in &heads {
                    writeln!(writer, "{}", head.line()).map_err(ExportError::Write)?;
                }
            }
        }
        writer.flush().map_err(ExportError::Write)?;
        Ok(count)
    }
}

/// A read position in the journal that moves forward.
#[derive(Debug)]
pub struct Tail {
    connection: SqliteConnection,
    after: i64,
    version: Option<i64>,
}

impl Tail {
    /// The next records in order of commits: at most one page, empty at the end.
    pub async fn page(&mut self) -> Result<Vec<Numbered>, ReadError> {
        let rows = sqlx::query("SELECT n, session, seq, prev, json, hash FROM events WHERE n > ? ORDER BY n LIMIT ?")
            .bind(self.after)
            .bind(PAGE)
            .fetch_all(&mut self.connection)
            .await
            .map_err(ReadError::Database)?;
        let mut page = Vec::with_capacity(rows.len());
        for row in &rows {
            let n = database::number(row, "events", "n")?;
            page.push(Numbered {
                n,
                record: record(row)?,
            });
        }
        if let Some(last) = page.last() {
            self.after = signed(last.n);
        }
        Ok(page)
    }

    /// As [`Tail::page`], but waits for at least one record. Cancel safe.
    pub async fn next_page(&mut self) -> Result<Vec<Numbered>, ReadError> {
        loop {
            // The version is read first: a commit in between is found in the next round.
            let version: i64 = sqlx::query_scalar("PRAGMA data_version")
                .fetch_one(&mut self.connection)
                .await
                .map_err(ReadError::Database)?;
            if self.version != Some(version) {
                let page = self.page().await?;
                if !page.is_empty() {
                    return Ok(page);
                }
                self.version = Some(version);
            }
            tokio::time::sleep(FOLLOW).await;
        }
    }
}
