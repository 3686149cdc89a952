//! Promised runs that have not started, and idempotency keys: which run a client's key started, so that a repeated request starts no other.
//! Both are written in one commit: of two processes that get the same key, one starts the run.

use ringfence_journal::{ContentHash, ExecutionId, ExecutionStatus, LeaseId, Principal, RecordError};

use crate::database::{self, QueryError};
use crate::query::query;
use crate::writer::WriterCommand;
use crate::{Lease, Store, lease};

/// A run that is about to be promised to a client, with its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// The principal who owns the run.
    pub principal: Principal,
    /// The id of the run, newly generated.
    pub execution: ExecutionId,
    /// The client's idempotency key; `None` if the request has none.
    pub key: Option<IdempotencyKey>,
}

/// An idempotency key that a client sends with a request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key as the client sent it.
    pub name: String,
    /// The digest of the request's content.
    pub asked: ContentHash,
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdempotencyOutcome {
    /// The key is new: this process starts the run of the claim.
    New,
    /// An earlier run had the same key and the same request.
    SameRequest(ExecutionId),
    /// An earlier run had the same key and another request.
    OtherRequest(ExecutionId),
}

/// A promised run that has not started as far as the database knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromisedRun {
    /// The principal who owns the run.
    pub principal: Principal,
    /// The lease of the process that promised it.
    pub lease: LeaseId,
    /// The status with which it ended before it started; `None` if it did not end.
    pub status: Option<ExecutionStatus>,
}

impl Store {
    /// Records a promise and gives its key to the run, unless another run has that key. Promises and keys are kept for a day, and of each
    /// principal's keys only the newest ten thousand.
    pub async fn claim_idempotency_key(
        &self,
        lease: &Lease,
        claim: IdempotencyClaim,
    ) -> Result<IdempotencyOutcome, RecordError> {
        let (claim, lease) = (Box::new(claim), self.note_lease(lease));
        self.send(|reply| WriterCommand::Claim { claim, lease, reply }).await
    }

    /// Takes over a promise whose process is gone; `false` if another process was faster, or the run has started.
    pub async fn reclaim(&self, execution: ExecutionId, from: LeaseId, to: &Lease) -> Result<bool, RecordError> {
        let to = self.note_lease(to);
        self.send(|reply| WriterCommand::Reclaim {
            execution,
            from,
            to,
            reply,
        })
        .await
    }

    /// A promised run that has not started; `None` if it has, or nobody promised it.
    pub async fn promise(&self, execution: ExecutionId) -> Result<Option<PromisedRun>, QueryError> {
        const TABLE: &str = "promises";
        let reader = self.reader().await;
        let row = query("SELECT principal, lease, status FROM promises WHERE execution = ?")
            .bind(execution.to_string())
            .fetch_optional(&reader)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let damaged = |column| QueryError::Row { table: TABLE, column };
        let status: Option<&str> = row.get("status").map_err(|_| damaged("status"))?;
        let status = status.map(|status| serde_json::from_value(status.into()));
        Ok(Some(PromisedRun {
            principal: database::parse_column(&row, TABLE, "principal")?,
            lease: database::parse_column(&row, TABLE, "lease")?,
            status: status.transpose().map_err(|_| damaged("status"))?,
        }))
    }

    /// Whether the process of a lease is alive, also while a sweeper holds its lock.
    pub fn lives(&self, lease: LeaseId) -> bool {
        lease::lives(&self.home.run_folder(), lease)
    }

    /// Waits until no process sweeps after this lease.
    pub async fn swept_by_others(&self, lease: LeaseId) {
        let run = self.home.run_folder();
        // If the wait fails, the caller checks again at once.
        let _ = tokio::task::spawn_blocking(move || lease::wait_for_sweeper(&run, lease)).await;
    }
}
