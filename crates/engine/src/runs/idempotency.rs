//! Idempotent runs: one run for each key, however often it is requested, and in however many processes.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use ringfence_journal::{ContentHash, ExecutionId, Principal};
use ringfence_store::{IdempotencyClaim, IdempotencyKey, IdempotencyOutcome};
use tokio::sync::Mutex;

use crate::approvals::broker::record_error;
use crate::error::OperationError;
use crate::runs::ClientRuns;
use crate::runs::request::RunRequest;
use crate::sweep;

/// Lock stripes: keys that share one wait for each other.
const LOCK_STRIPES: usize = 64;

/// The result of a request with an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdempotentRun {
    /// The request started this run.
    Started(ExecutionId),
    /// The same request started this run before.
    Repeated(ExecutionId),
    /// A different request used the key before, for this run.
    Conflict(ExecutionId),
}

/// Held while a key is looked up: of two requests with one key, the second finds what the first started.
#[derive(Debug)]
pub(crate) struct IdempotencyLocks {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for IdempotencyLocks {
    fn default() -> IdempotencyLocks {
        IdempotencyLocks {
            locks: (0..LOCK_STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl IdempotencyLocks {
    fn lock_for(&self, who: Principal, key: &str) -> &Mutex<()> {
        let which = self.hasher.hash_one((who, key)) % LOCK_STRIPES as u64;
        // The index is in range: the remainder is smaller than the number of stripes.
        &self.locks[usize::try_from(which).unwrap_or(0)]
    }
}

impl ClientRuns {
    /// Begins an execution, unless the key already has one; `asked` is the digest of the request.
    pub async fn begin_idempotent(
        self: &Arc<Self>,
        who: Principal,
        ask: RunRequest,
        key: &str,
        asked: ContentHash,
    ) -> Result<IdempotentRun, OperationError> {
        let front = self.open_front()?;
        Box::pin(self.check_flood(front, who, &ask)).await?;
        let _alone = self.idempotency_locks.lock_for(who, key).lock().await;
        let execution = ExecutionId::generate()?;
        let claim = IdempotencyClaim {
            principal: who,
            execution,
            key: Some(IdempotencyKey {
                name: key.to_owned(),
                asked,
            }),
        };
        let execution = match self
            .records
            .store
            .claim_idempotency_key(&self.records.lease, claim)
            .await?
        {
            IdempotencyOutcome::New => execution,
            IdempotencyOutcome::OtherRequest(other) => return Ok(IdempotentRun::Conflict(other)),
            IdempotencyOutcome::SameRequest(earlier) if self.has_begun(who, earlier).await? => {
                return Ok(IdempotentRun::Repeated(earlier));
            }
            // The run was promised and never began: it begins now.
            IdempotencyOutcome::SameRequest(never) => never,
        };
        let place = self.runs.place(who)?;
        Box::pin(self.begin_with_id(execution, (who, place), ask)).await?;
        Ok(IdempotentRun::Started(execution))
    }

    /// Whether a promised run has begun; if not, this process may begin it.
    async fn has_begun(&self, who: Principal, execution: ExecutionId) -> Result<bool, OperationError> {
        if self.runs.find(who, execution).is_some() {
            return Ok(true);
        }
        let Some(promise) = self.records.store.promise(execution).await.map_err(record_error)? else {
            return Ok(self
                .records
                .store
                .execution(execution)
                .await
                .map_err(record_error)?
                .is_some());
        };
        if promise.status.is_some() {
            return Ok(true);
        }
        if promise.lease == self.records.lease.id() {
            // The run is not here, and no other task here holds its key.
            return Ok(false);
        }
        if self.records.store.lives(promise.lease) {
            return Ok(true);
        }
        if let Err(error) = sweep::sweep_dead_processes(&self.records.store).await {
            tracing::warn!(%error, "what a neighbour left could not be swept");
        }
        Ok(!self
            .records
            .store
            .reclaim(execution, promise.lease, &self.records.lease)
            .await?)
    }
}
