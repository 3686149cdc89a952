//! Promised runs that have not started, and idempotency keys: which run a client's key started, so that a repeated request starts no other.
//! Both are written in one commit: of two processes that get the same key, one starts the run.

use ringfence_journal::{ExecutionId, Hash, LeaseId, Principal, RecordError, Status};
use sqlx::Row as _;

use crate::database::{self, ReadError};
use crate::writer::Command;
use crate::{Lease, Store, lease};

/// A run that is about to be promised to a client, with its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The principal who owns the run.
    pub principal: Principal,
    /// The id of the run, newly generated.
    pub execution: ExecutionId,
    /// The client's idempotency key; `None` if the request has none.
    pub key: Option<Key>,
}

/// An idempotency key that a client sends with a request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key as the client sent it.
    pub name: String,
    /// The digest of the request's content.
    pub asked: Hash,
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The key is new: this process starts the run of the claim.
    Now,
    /// An earlier run had the same key and the same request.
    Before(ExecutionId),
    /// An earlier run had the same key and another request.
    Otherwise(ExecutionId),
}

/// A promised run that has not started as far as the database knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The principal who owns the run.
    pub principal: Principal,
    /// The lease of the process that promised it.
    pub lease: LeaseId,
    /// The status with which it ended before it started; `None` if it did not end.
    pub status: Option<Status>,
}

impl Store {
    /// Records a promise and gives its key to the run, unless another run has that key. Promises and keys are kept for a day, and of each
    /// principal's keys only the newest ten thousand.
    pub async fn claim(&self, lease: &Lease, claim: Claim) -> Result<Claimed, RecordError> {
        let (claim, lease) = (Box::new(claim), self.under(lease));
        self.send(|reply| Command::Claim { claim, lease, reply }).await
    }

    /// Takes over a promise whose process is gone; `false` if another process was faster, or the run has started.
    pub async fn reclaim(&self, execution: ExecutionId, from: LeaseId, to: &Lease) -> Result<bool, RecordError> {
        let to = self.under(to);
        self.send(|reply| Command::Reclaim {
            execution,
            from,
            to,
            reply,
        })
        .await
    }

    /// A promised run that has not started; `None` if it has, or nobody promised it.
    pub async fn promise(&self, execution: ExecutionId) -> Result<Option<Promise>, ReadError> {
        const TABLE: &str = "promises";
        let mut reader = self.reader().await?;
        let row = sqlx::query("SELECT principal, lease, status FROM promises WHERE execution = ?")
            .bind(execution.to_string())
            .fetch_optional(reader.connection()?)
            .await
            .map_err(ReadError::Database)?;
        let Some(row) = row else { return Ok(None) };
        let damaged = |column| ReadError::Row { table: TABLE, column };
        let status: Option<&str> = row.try_get("status").map_err(|_| damaged("status"))?;
        let status = status.map(|status| serde_json::from_value(status.into()));
        Ok(Some(Promise {
            principal: database::parsed(&row, TABLE, "principal")?,
            lease: database::parsed(&row, TABLE, "lease")?,
            status: status.transpose().map_err(|_| damaged("status"))?,
        }))
    }

    /// Whether the process of a lease is alive, also while a sweeper holds its lock.
    pub fn lives(&self, lease: LeaseId) -> bool {
        lease::lives(&self.home.run(), lease)
    }

    /// Waits until no process sweeps after this lease.
    pub async fn swept_by_others(&self, lease: LeaseId) {
        let run = self.home.run();
        // If the wait fails, the caller checks again at once.
        let _ = tokio::task::spawn_blocking(move || lease::wait_for_sweeper(&run, lease)).await;
    }
}
