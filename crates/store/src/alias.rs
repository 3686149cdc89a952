//! The aliases of a session, which stand for personal data: opaque here, sealed, and deleted when the session is over.

use ringfence_journal::SessionId;
use zeroize::Zeroizing;

use crate::Store;
use crate::database::QueryError;
use crate::query::{QueryRow, query};
use crate::seal::{SealContext, SealError};

impl Store {
    /// The parts of a session's aliases, in order; empty once the session is over.
    pub async fn aliases(&self, session: SessionId) -> Result<Vec<Zeroizing<Vec<u8>>>, QueryError> {
        let name = session.to_string();
        let reader = self.reader().await;
        let rows = query("SELECT n, sealed FROM aliases WHERE session = ? ORDER BY n")
            .bind(name.clone())
            .fetch_all(&reader)
            .await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let key: Option<Vec<u8>> = query("SELECT sealed FROM keys WHERE session = ?")
            .bind(name.clone())
            .fetch_scalar(&reader)
            .await?;
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
        let open = |row: &QueryRow| {
            let (n, bytes): (i64, &[u8]) = (
                row.get("n").map_err(|_| damaged("n"))?,
                row.get("sealed").map_err(|_| damaged("sealed"))?,
            );
            seal.unseal(SealContext::Aliases(&name, n), bytes).map_err(sealed)
        };
        rows.iter().map(open).collect()
    }
}
