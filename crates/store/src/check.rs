//! Verifies the whole journal, one page at a time, in one snapshot of the database.

use ringfence_journal::{
    ChainCheck, Head, HeadState, HeadsCheck, Mark, PublicKey, Report, SessionId, SignedHead, Verdict,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Executor as _, Row as _, SqliteConnection};

use crate::Store;
use crate::audit;
use crate::database::{self, ReadError, signed};
use crate::prune;

/// Rows that are read at once; bounds memory.
const PAGE: i64 = 500;

const HEADS: &str = "heads";

/// Reads a head from its row.
pub(crate) fn head(row: &SqliteRow) -> Result<Head, ReadError> {
    let closed = database::number(row, HEADS, "closed")?;
    Ok(Head {
        n: database::number(row, HEADS, "n")?,
        prev: database::digest(row, HEADS, "prev")?,
        session: database::parsed(row, HEADS, "session")?,
        seq: database::number(row, HEADS, "seq")?,
        record: database::digest(row, HEADS, "record")?,
        state: if closed == 0 {
            HeadState::Checkpoint
        } else {
            HeadState::Closed
        },
    })
}

fn signed_head(row: &SqliteRow) -> Result<SignedHead, ReadError> {
    let damaged = ReadError::Row {
        table: HEADS,
        column: "signature",
    };
    let bytes: &[u8] = row.try_get("signature").map_err(|_| ReadError::Row {
        table: HEADS,
        column: "signature",
    })?;
    Ok(SignedHead {
        head: head(row)?,
        signature: bytes.try_into().map_err(|_| damaged)?,
    })
}

/// The first heads of one session, in order: at most four, enough for a session of one record.
pub(crate) async fn heads_of(
    connection: &mut SqliteConnection,
    session: SessionId,
) -> Result<Vec<SignedHead>, ReadError> {
    let rows = sqlx::query(
        "SELECT n, prev, session, seq, record, closed, signature FROM heads WHERE session = ? ORDER BY n LIMIT 4",
    )
    .bind(session.to_string())
    .fetch_all(connection)
    .await
    .map_err(ReadError::Database)?;
    rows.iter().map(signed_head).collect()
}

/// One page of heads after number `after`, in order.
pub(crate) async fn heads(connection: &mut SqliteConnection, after: u64) -> Result<Vec<SignedHead>, ReadError> {
    let rows = sqlx::query(
        "SELECT n, prev, session, seq, record, closed, signature FROM heads WHERE n > ? ORDER BY n LIMIT ?",
    )
    .bind(signed(after))
    .bind(PAGE)
    .fetch_all(connection)
    .await
    .map_err(ReadError::Database)?;
    rows.iter().map(signed_head).collect()
}

impl Store {
    /// Verifies every chain and calls `each` with each session's result.
    pub async fn verify(&self, mut each: impl FnMut(&Verdict) + Send) -> Result<Report, ReadError> {
        self.caught_up().await;
        // The mark may lag behind the snapshot but never be ahead of it, so it is read first.
        let mark = self.home.read_mark().map_err(|error| ReadError::Mark {
            reason: error.to_string(),
        })?;
        let mut connection = database::connect_reader(&self.home.database()).await?;
        let outcome = verify(&mut connection, self.key, mark, &mut each).await;
        database::close(connection).await;
        outcome
    }
}

async fn verify(
    connection: &mut SqliteConnection,
    key: PublicKey,
    mark: Option<Mark>,
    each: &mut (impl FnMut(&Verdict) + Send),
) -> Result<Report, ReadError> {
    connection.execute("BEGIN").await.map_err(ReadError::Database)?;
    let mut report = Report::default();
    check_heads(connection, key, mark, &mut report).await?;
    let mut after = String::new();
    while let Some(session) = next_session(connection, &after).await? {
        after = session.to_string();
        let mut verdict = check_session(connection, session).await?;
        if verdict.records == 0
            && let Some(records) = prune::pruned(connection, key, session).await?
            && records >= prune::last_signed(connection, session).await?
        {
            verdict = Verdict::of_pruned(session, records);
        }
        each(&verdict);
        report.add(verdict);
    }
    Ok(report)
}

async fn check_heads(
    connection: &mut SqliteConnection,
    key: PublicKey,
    mark: Option<Mark>,
    report: &mut Report,
) -> Result<(), ReadError> {
    let mut check = HeadsCheck::new(key, mark);
    let mut after = 0;
    loop {
        let page = heads(connection, after).await?;
        let Some(last) = page.last() else { break };
        after = last.head.n;
        for signed in &page {
            check.head(signed);
        }
    }
    check.finish(report);
    Ok(())
}

/// The next session that has records, or heads without records.
async fn next_session(connection: &mut SqliteConnection, after: &str) -> Result<Option<SessionId>, ReadError> {
    let row = sqlx::query(
        "SELECT min(session) AS session FROM (
           SELECT min(session) AS session FROM events WHERE session > ?1
           UNION ALL SELECT min(session) FROM heads WHERE session > ?1)",
    )
    .bind(after)
    .fetch_one(connection)
    .await
    .map_err(ReadError::Database)?;
    let damaged = || ReadError::Row {
        table: "events",
        column: "session",
    };
    let name: Option<&str> = row.try_get("session").map_err(|_| damaged())?;
    name.map(str::parse).transpose().map_err(|_| damaged())
}

async fn check_session(connection: &mut SqliteConnection, session: SessionId) -> Result<Verdict, ReadError> {
    let mut check = ChainCheck::new(session);
    let (mut seq, mut place) = (0, 0i64);
    loop {
        let rows = sqlx::query(
            "SELECT n, session, seq, prev, json, hash FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(session.to_string())
        .bind(signed(seq))
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await
        .map_err(ReadError::Database)?;
        let heads = heads_between(connection, session, seq, &rows).await?;
        let mut heads = heads.iter().peekable();
        for row in &rows {
            let record = audit::record(row)?;
            seq = record.seq;
            check.record(&record);
            // Numbers start at 1 and grow with every committed record.
            let n: i64 = row.try_get("n").map_err(|_| ReadError::Row {
                table: "events",
                column: "n",
            })?;
            if n <= place {
                check.moved(seq);
            }
            place = n;
            while let Some(head) = heads.next_if(|head| head.seq <= seq) {
                check.signed(head);
            }
        }
        heads.for_each(|head| check.signed(head));
        if rows.is_empty() {
            return Ok(check.finish());
        }
    }
}

/// The heads of a page of records; after the last record, the first head beyond it.
async fn heads_between(
    connection: &mut SqliteConnection,
    session: SessionId,
    after: u64,
    rows: &[SqliteRow],
) -> Result<Vec<Head>, ReadError> {
    let (until, limit) = match rows.last() {
        // No two heads name the same record unless somebody added one; then this limit is enough.
        Some(last) => (signed(database::number(last, "events", "seq")?), 2 * PAGE),
        None => (i64::MAX, 1),
    };
    let rows = sqlx::query(
        "SELECT n, prev, session, seq, record, closed FROM heads
         WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq, n LIMIT ?",
    )
    .bind(session.to_string())
    .bind(signed(after))
    .bind(until)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(ReadError::Database)?;
    rows.iter().map(head).collect()
}
