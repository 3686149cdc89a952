//! Lists executions across sessions, newest first.

use ringfence_journal::{ExecutionId, Principal, SessionId};

use crate::Store;
use crate::database::QueryError;
use crate::query::query;
use crate::session::{self, StoredExecution};

/// The most executions on one page.
const MAX_PAGE_SIZE: u32 = 1000;

/// Selects the executions to list, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExecutionQuery {
    /// Only executions in sessions of this principal.
    pub principal: Option<Principal>,
    /// Only executions in this session.
    pub session: Option<SessionId>,
    /// Only executions older than this one, the last of the previous page.
    pub before: Option<ExecutionId>,
    /// The most executions to return; a page has at most 1,000.
    pub limit: Option<u32>,
}

impl Store {
    /// A page of executions, newest first.
    pub async fn list_executions(&self, which: ExecutionQuery) -> Result<Vec<StoredExecution>, QueryError> {
        let reader = self.reader().await;
        let rows = query(
            "SELECT e.id, e.session, e.language, e.status, e.started, e.ended FROM executions e
             WHERE (?1 IS NULL OR e.session = ?1) AND (?2 IS NULL OR e.id < ?2)
             AND (?3 IS NULL OR EXISTS (SELECT 1 FROM sessions s WHERE s.id = e.session AND s.principal = ?3))
             ORDER BY e.id DESC LIMIT ?4",
        )
        .bind(which.session.map(|session| session.to_string()))
        .bind(which.before.map(|before| before.to_string()))
        .bind(which.principal.map(|principal| principal.to_string()))
        .bind(i64::from(which.limit.unwrap_or(MAX_PAGE_SIZE).min(MAX_PAGE_SIZE)))
        .fetch_all(&reader)
        .await?;
        rows.iter().map(session::execution_from_row).collect()
    }

    /// How many sessions are open.
    pub async fn open_session_count(&self) -> Result<u64, QueryError> {
        let reader = self.reader().await;
        let count: Option<i64> = query("SELECT count(*) FROM sessions WHERE state = 'open'")
            .fetch_scalar(&reader)
            .await?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// The number of the newest record; 0 where there is none.
    pub async fn last_record_number(&self) -> Result<u64, QueryError> {
        let reader = self.reader().await;
        let last: Option<i64> = query("SELECT max(n) FROM events").fetch_scalar(&reader).await?;
        Ok(last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0))
    }

    /// The number of a session's first record.
    pub async fn first_record_number(&self, session: SessionId) -> Result<Option<u64>, QueryError> {
        let reader = self.reader().await;
        let first: Option<i64> = query("SELECT n FROM events WHERE session = ? AND seq = 1")
            .bind(session.to_string())
            .fetch_scalar(&reader)
            .await?;
        Ok(first.and_then(|first| u64::try_from(first).ok()))
    }
}
