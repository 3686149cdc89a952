//! Verifies the whole journal, one page at a time, in one snapshot of the database.

use ringfence_journal::{
    ChainHead, ChainVerifier, HeadMark, HeadState, HeadVerifier, PublicKey, SessionId, SessionVerification, SignedHead,
    VerificationReport,
};

use crate::Store;
use crate::audit;
use crate::database::{self, QueryError, to_signed};
use crate::prune;
use crate::query::{QueryRow, ReadConnection, query};

/// Rows that are read at once; bounds memory.
const PAGE_ROWS: i64 = 500;

const HEADS: &str = "heads";

/// Reads a head from its row.
pub(crate) fn head_from_row(row: &QueryRow) -> Result<ChainHead, QueryError> {
    let closed = database::unsigned_column(row, HEADS, "closed")?;
    Ok(ChainHead {
        n: database::unsigned_column(row, HEADS, "n")?,
        prev: database::hash_column(row, HEADS, "prev")?,
        session: database::parse_column(row, HEADS, "session")?,
        seq: database::unsigned_column(row, HEADS, "seq")?,
        record: database::hash_column(row, HEADS, "record")?,
        state: if closed == 0 {
            HeadState::Checkpoint
        } else {
            HeadState::Closed
        },
    })
}

fn signed_head_from_row(row: &QueryRow) -> Result<SignedHead, QueryError> {
    let damaged = QueryError::Row {
        table: HEADS,
        column: "signature",
    };
    let bytes: &[u8] = row.get("signature").map_err(|_| QueryError::Row {
        table: HEADS,
        column: "signature",
    })?;
    Ok(SignedHead {
        head: head_from_row(row)?,
        signature: bytes.try_into().map_err(|_| damaged)?,
    })
}

/// The first heads of one session, in order: at most four, enough for a session of one record.
pub(crate) async fn session_heads(
    connection: &ReadConnection,
    session: SessionId,
) -> Result<Vec<SignedHead>, QueryError> {
    let rows = query(
        "SELECT n, prev, session, seq, record, closed, signature FROM heads WHERE session = ? ORDER BY n LIMIT 4",
    )
    .bind(session.to_string())
    .fetch_all(connection)
    .await?;
    rows.iter().map(signed_head_from_row).collect()
}

/// One page of heads after number `after`, in order.
pub(crate) async fn heads_after(connection: &ReadConnection, after: u64) -> Result<Vec<SignedHead>, QueryError> {
    let rows =
        query("SELECT n, prev, session, seq, record, closed, signature FROM heads WHERE n > ? ORDER BY n LIMIT ?")
            .bind(to_signed(after))
            .bind(PAGE_ROWS)
            .fetch_all(connection)
            .await?;
    rows.iter().map(signed_head_from_row).collect()
}

impl Store {
    /// Verifies every chain and calls `each` with each session's result.
    pub async fn verify(
        &self,
        mut each: impl FnMut(&SessionVerification) + Send,
    ) -> Result<VerificationReport, QueryError> {
        self.catch_up().await;
        // The mark may lag behind the snapshot but never be ahead of it, so it is read first.
        let mark = self.home.read_mark().map_err(|error| QueryError::Mark {
            reason: error.to_string(),
        })?;
        let connection = ReadConnection::new(self.home.database_path());
        let outcome = verify_journal(&connection, self.key, mark, &mut each).await;
        connection.close().await;
        outcome
    }
}

async fn verify_journal(
    connection: &ReadConnection,
    key: PublicKey,
    mark: Option<HeadMark>,
    each: &mut (impl FnMut(&SessionVerification) + Send),
) -> Result<VerificationReport, QueryError> {
    connection.begin().await?;
    let mut report = VerificationReport::default();
    check_heads(connection, key, mark, &mut report).await?;
    let mut after = String::new();
    while let Some(session) = next_session(connection, &after).await? {
        after = session.to_string();
        let mut verdict = check_session(connection, session).await?;
        if verdict.records == 0
            && let Some(records) = prune::pruned_record_count(connection, key, session).await?
            && records >= prune::last_signed_record(connection, session).await?
        {
            verdict = SessionVerification::pruned(session, records);
        }
        each(&verdict);
        report.add_session(verdict);
    }
    Ok(report)
}

async fn check_heads(
    connection: &ReadConnection,
    key: PublicKey,
    mark: Option<HeadMark>,
    report: &mut VerificationReport,
) -> Result<(), QueryError> {
    let mut check = HeadVerifier::new(key, mark);
    let mut after = 0;
    loop {
        let page = heads_after(connection, after).await?;
        let Some(last) = page.last() else { break };
        after = last.head.n;
        for signed in &page {
            check.add_head(signed);
        }
    }
    check.finish(report);
    Ok(())
}

/// The next session that has records, or heads without records.
async fn next_session(connection: &ReadConnection, after: &str) -> Result<Option<SessionId>, QueryError> {
    let row = query(
        "SELECT min(session) AS session FROM (
           SELECT min(session) AS session FROM events WHERE session > ?1
           UNION ALL SELECT min(session) FROM heads WHERE session > ?1)",
    )
    .bind(after.to_owned())
    .fetch_one(connection)
    .await?;
    let damaged = || QueryError::Row {
        table: "events",
        column: "session",
    };
    let name: Option<&str> = row.get("session").map_err(|_| damaged())?;
    name.map(str::parse).transpose().map_err(|_| damaged())
}

async fn check_session(connection: &ReadConnection, session: SessionId) -> Result<SessionVerification, QueryError> {
    let mut check = ChainVerifier::new(session);
    let (mut seq, mut place) = (0, 0i64);
    loop {
        let rows = query(
            "SELECT n, session, seq, prev, json, hash FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(session.to_string())
        .bind(to_signed(seq))
        .bind(PAGE_ROWS)
        .fetch_all(connection)
        .await?;
        let heads = heads_between(connection, session, seq, &rows).await?;
        let mut heads = heads.iter().peekable();
        for row in &rows {
            let record = audit::record_from_row(row)?;
            seq = record.seq;
            check.add_record(&record);
            // Numbers start at 1 and grow with every committed record.
            let n: i64 = row.get("n").map_err(|_| QueryError::Row {
                table: "events",
                column: "n",
            })?;
            if n <= place {
                check.mark_moved(seq);
            }
            place = n;
            while let Some(head) = heads.next_if(|head| head.seq <= seq) {
                check.add_signed_head(head);
            }
        }
        heads.for_each(|head| check.add_signed_head(head));
        if rows.is_empty() {
            return Ok(check.finish());
        }
    }
}

/// The heads of a page of records; after the last record, the first head beyond it.
async fn heads_between(
    connection: &ReadConnection,
    session: SessionId,
    after: u64,
    rows: &[QueryRow],
) -> Result<Vec<ChainHead>, QueryError> {
    let (until, limit) = match rows.last() {
        // No two heads name the same record unless somebody added one; then this limit is enough.
        Some(last) => (
            to_signed(database::unsigned_column(last, "events", "seq")?),
            2 * PAGE_ROWS,
        ),
        None => (i64::MAX, 1),
    };
    let rows = query(
        "SELECT n, prev, session, seq, record, closed FROM heads
         WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq, n LIMIT ?",
    )
    .bind(session.to_string())
    .bind(to_signed(after))
    .bind(until)
    .bind(limit)
    .fetch_all(connection)
    .await?;
    rows.iter().map(head_from_row).collect()
}
