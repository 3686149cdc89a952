//! Reads the journal: by session, as it grows, and as lines of JSON.

use std::io::{self, Write};
use std::time::Duration;

use ringfence_journal::{Record, SessionId};

use crate::database::{self, QueryError, to_signed};
use crate::query::{QueryRow, ReadConnection, query};
use crate::verify;
use crate::{MissedRecords, Store};

/// Rows that are read at once; bounds memory.
const PAGE_ROWS: i64 = 500;

/// How often a follower checks for new commits.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// A record with its number in the order of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedRecord {
    /// Its number among all records of the journal.
    pub n: u64,
    /// The record as it was committed.
    pub record: Record,
}

/// The contents of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportContents {
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
    Read(#[from] QueryError),
    /// The lines cannot be written.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
}

/// Reads a record from its row.
pub(crate) fn record_from_row(row: &QueryRow) -> Result<Record, QueryError> {
    const TABLE: &str = "events";
    Ok(Record {
        session: database::parse_column(row, TABLE, "session")?,
        seq: database::unsigned_column(row, TABLE, "seq")?,
        prev: database::hash_column(row, TABLE, "prev")?,
        json: row.get("json").map_err(|_| QueryError::Row {
            table: TABLE,
            column: "json",
        })?,
        hash: database::hash_column(row, TABLE, "hash")?,
    })
}

impl Store {
    /// All records of a session, in order.
    pub async fn session_records(&self, session: SessionId) -> Result<Vec<Record>, QueryError> {
        let reader = self.reader().await;
        let rows = query("SELECT session, seq, prev, json, hash FROM events WHERE session = ? ORDER BY seq")
            .bind(session.to_string())
            .fetch_all(&reader)
            .await?;
        rows.iter().map(record_from_row).collect()
    }

    /// Records that sinks missed, in this process or another: one row per sink.
    pub async fn missed_records(&self) -> Result<Vec<MissedRecords>, QueryError> {
        const TABLE: &str = "undelivered";
        let reader = self.reader().await;
        let rows = query("SELECT sink, records, since, last, reason FROM undelivered ORDER BY sink")
            .fetch_all(&reader)
            .await?;
        let missed = |row: &QueryRow| {
            Ok(MissedRecords {
                sink: database::parse_column(row, TABLE, "sink")?,
                records: database::unsigned_column(row, TABLE, "records")?,
                since: database::parse_column(row, TABLE, "since")?,
                last: database::parse_column(row, TABLE, "last")?,
                reason: database::parse_column(row, TABLE, "reason")?,
            })
        };
        rows.iter().map(missed).collect()
    }

    /// Follows the journal from its last `count` records on.
    pub async fn tail_last(&self, count: u32) -> Result<JournalTail, QueryError> {
        self.catch_up().await;
        let connection = ReadConnection::new(self.home.database_path());
        let last: Option<i64> = query("SELECT max(n) FROM events").fetch_scalar(&connection).await?;
        let after = last.unwrap_or(0).saturating_sub(i64::from(count)).max(0);
        Ok(JournalTail {
            connection,
            after,
            version: None,
        })
    }

    /// Follows the journal from record `n` on, without that record.
    pub async fn tail_after(&self, n: u64) -> Result<JournalTail, QueryError> {
        self.catch_up().await;
        let connection = ReadConnection::new(self.home.database_path());
        Ok(JournalTail {
            connection,
            after: to_signed(n),
            version: None,
        })
    }

    /// Writes the journal as lines of JSON, one page at a time. Returns the number of records.
    pub async fn export<W: Write>(&self, mut writer: W, contents: ExportContents) -> Result<u64, ExportError> {
        let mut tail = self.tail_after(0).await?;
        let mut count = 0;
        loop {
            let page = tail.page().await?;
            if page.is_empty() {
                break;
            }
            for numbered in page {
                writeln!(writer, "{}", numbered.record.to_json_line()).map_err(ExportError::Write)?;
                count += 1;
            }
        }
        if contents == ExportContents::RecordsAndHeads {
            let mut after = 0;
            loop {
                let heads = verify::heads_after(&tail.connection, after).await?;
                let Some(last) = heads.last() else { break };
                after = last.head.n;
                for head in &heads {
                    writeln!(writer, "{}", head.to_json_line()).map_err(ExportError::Write)?;
                }
            }
        }
        writer.flush().map_err(ExportError::Write)?;
        Ok(count)
    }
}

/// A read position in the journal that moves forward.
#[derive(Debug)]
pub struct JournalTail {
    connection: ReadConnection,
    after: i64,
    version: Option<i64>,
}

impl JournalTail {
    /// The next records in order of commits: at most one page, empty at the end.
    pub async fn page(&mut self) -> Result<Vec<NumberedRecord>, QueryError> {
        let rows = query("SELECT n, session, seq, prev, json, hash FROM events WHERE n > ? ORDER BY n LIMIT ?")
            .bind(self.after)
            .bind(PAGE_ROWS)
            .fetch_all(&self.connection)
            .await?;
        let mut page = Vec::with_capacity(rows.len());
        for row in &rows {
            let n = database::unsigned_column(row, "events", "n")?;
            page.push(NumberedRecord {
                n,
                record: record_from_row(row)?,
            });
        }
        if let Some(last) = page.last() {
            self.after = to_signed(last.n);
        }
        Ok(page)
    }

    /// As [`JournalTail::page`], but waits for at least one record. Cancel safe.
    pub async fn next_page(&mut self) -> Result<Vec<NumberedRecord>, QueryError> {
        loop {
            // The version is read first: a commit in between is found in the next round.
            let version: Option<i64> = query("PRAGMA data_version").fetch_scalar(&self.connection).await?;
            if self.version != version {
                let page = self.page().await?;
                if !page.is_empty() {
                    return Ok(page);
                }
                self.version = version;
            }
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
}
