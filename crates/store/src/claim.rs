//! Runs that were promised and have not started, and idempotency keys: which run a client's key began, so that a request that is
//! sent again begins no other. Both are written in one commit: of two processes that are asked with one key, one begins the run.

use ringfence_journal::{ExecutionId, Hash, LeaseId, Principal, RecordError, Status};
use sqlx::Row as _;

use crate::database::{self, ReadError};
use crate::writer::Command;
use crate::{Lease, Store, lease};

/// A run that is about to be promised to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose run.
    pub principal: Principal,
    /// Its id, new.
    pub execution: ExecutionId,
    /// What the client calls its request, so that it can be sent again.
    pub key: Option<Key>,
}

/// A key that a client gives with a request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: String,
    /// The digest of what was asked for.
    pub asked: Hash,
}

/// What a claim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The run of this claim is this process's to begin: nobody used the key before.
    Now,
    /// This run, which was asked for in the same words.
    Before(ExecutionId),
    /// A run that was asked for in other words.
    Otherwise(ExecutionId),
}

/// A run that was promised, and is not seen to have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Whose run.
    pub principal: Principal,
    /// Who promised it.
    pub lease: LeaseId,
    /// How it ended, where it is known.
    pub status: Option<Status>,
}

impl Store {
    /// Writes a promise down, and gives its key to it, unless another run has that. Promises and keys last a day; of keys the
    /// newest ten thousand of a principal do.
    pub async fn claim(&self, lease: &Lease, claim: Claim) -> Result<Claimed, RecordError> {
        let (claim, lease) = (Box::new(claim), self.under(lease));
        self.send(|reply| Command::Claim { claim, lease, reply }).await
    }

    /// Takes a promise over that nobody keeps any more; false: somebody was faster, or it was kept.
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

    /// A run that was promised and has not started; none: it has, or nobody promised it.
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

    /// Whether the process of a lease lives, whoever sweeps meanwhile.
    pub fn lives(&self, lease: LeaseId) -> bool {
        lease::lives(&self.home.run(), lease)
    }

    /// Waits until nobody sweeps after this lease.
    pub async fn swept_by_others(&self, lease: LeaseId) {
        let run = self.home.run();
        // Who cannot wait for it looks again at once.
        let _ = tokio::task::spawn_blocking(move || lease::wait_for_sweeper(&run, lease)).await;
    }
}
