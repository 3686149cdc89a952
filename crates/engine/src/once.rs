//! Idempotent runs: one run for each key, however often it is requested, and in however many processes.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use ringfence_journal::{ExecutionId, Hash, Principal};
use ringfence_store::{Claim, Claimed, Key};
use tokio::sync::Mutex;

use crate::ask::Ask;
use crate::asker::unread;
use crate::engine::Engine;
use crate::error::RunError;
use crate::sweep;

/// Lock stripes: keys that share one wait for each other.
const SIDE_BY_SIDE: usize = 64;

/// The result of a request with an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// The request started this run.
    Begun(ExecutionId),
    /// The same request started this run before.
    Before(ExecutionId),
    /// A different request used the key before, for this run.
    Otherwise(ExecutionId),
}

/// Held while a key is looked up: of two requests with one key, the second finds what the first started.
#[derive(Debug)]
pub(crate) struct Keys {
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            locks: (0..SIDE_BY_SIDE).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Keys {
    fn of(&self, who: Principal, key: &str) -> &Mutex<()> {
        let which = self.hasher.hash_one((who, key)) % SIDE_BY_SIDE as u64;
        // The index is in range: the remainder is smaller than the number of stripes.
        &self.locks[usize::try_from(which).unwrap_or(0)]
    }
}

impl Engine {
    /// Begins an execution, unless the key already has one; `asked` is the digest of the request.
    pub async fn begin_once(
        self: &Arc<Self>,
        who: Principal,
        ask: Ask,
        key: &str,
        asked: Hash,
    ) -> Result<Once, RunError> {
        self.open_front()?;
        let _alone = self.keys.of(who, key).lock().await;
        let execution = ExecutionId::generate()?;
        let claim = Claim {
            principal: who,
            execution,
            key: Some(Key {
                name: key.to_owned(),
                asked,
            }),
        };
        let execution = match self.store.claim(&self.lease, claim).await? {
            Claimed::Now => execution,
            Claimed::Otherwise(other) => return Ok(Once::Otherwise(other)),
            Claimed::Before(earlier) if self.began(who, earlier).await? => return Ok(Once::Before(earlier)),
            // The run was promised and never began: it begins now.
            Claimed::Before(never) => never,
        };
        let place = self.runs.place(who)?;
        Box::pin(self.begin_as(execution, (who, place), ask)).await?;
        Ok(Once::Begun(execution))
    }

    /// Whether a promised run has begun; if not, this process may begin it.
    async fn began(&self, who: Principal, execution: ExecutionId) -> Result<bool, RunError> {
        if self.runs.find(who, execution).is_some() {
            return Ok(true);
        }
        let Some(promise) = self.store.promise(execution).await.map_err(unread)? else {
            return Ok(self.store.execution(execution).await.map_err(unread)?.is_some());
        };
        if promise.status.is_some() {
            return Ok(true);
        }
        if promise.lease == self.lease.id() {
            // The run is not here, and no other task here holds its key.
            return Ok(false);
        }
        if self.store.lives(promise.lease) {
            return Ok(true);
        }
        if let Err(error) = sweep::after_the_dead(&self.store).await {
            tracing::warn!(%error, "what a neighbour left could not be swept");
        }
        Ok(!self.store.reclaim(execution, promise.lease, &self.lease).await?)
    }
}
