//! The aliases of a session, which stand for personal data: opaque here, sealed, and deleted when the session is over.

use ringfence_journal::SessionId;
use sqlx::Row as _;
use zeroize::Zeroizing;

use crate::Store;
use crate::database::QueryError;
use crate::seal::{SealContext, SealError};

impl Store {
    /// The parts of a session's aliases, in order; empty once the session is over.
    pub async fn aliases(&self, session: SessionId) -> Result<Vec<Zeroizing<Vec<u8>>>, QueryError> {
        let name = session.to_string();
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT n, sealed FROM aliases WHERE session = ? ORDER BY n")
            .bind(&name)
            .fetch_all(reader.connection()?)
            .await
            .map_err(QueryError::Database)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let key: Option<Vec<u8>> = sqlx::query_scalar("SELECT sealed FROM keys WHERE session = ?")
            .bind(&name)
            .fetch_optional(reader.connection()?)
            .await
            .map_err(QueryError::Database)?;
        drop(reader);
        let sealed = |source| QueryError::Sealed {
            what: format!("the aliases of session `{session}`"),
            source,
        };
        let key = key.ok_or(SealError::Deleted { session }).map_err(sealed)?;
        let seal = self.seals.unwrap_session_key(session, &key).map_err(sealed)?;
        let damaged = |column| QueryError::Row {
            table: "aliases",
            column,
        };
        let open = |row: &sqlx::sqlite::SqliteRow| {
            let (n, bytes): (i64, &[u8]) = (
                row.try_get("n").map_err(|_| damaged("n"))?,
                row.try_get("sealed").map_err(|_| damaged("sealed"))?,
            );
            seal.unseal(SealContext::Aliases(&name, n), bytes).map_err(sealed)
        };
        rows.iter().map(open).collect()
    }
}
