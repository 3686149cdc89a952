//! Runs that begin once, however often they are asked for with the same key.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use ringfence_journal::{ExecutionId, Hash, Principal};
use ringfence_store::{Claim, Claimed};
use tokio::sync::Mutex;

use crate::ask::Ask;
use crate::asker::unread;
use crate::engine::Engine;
use crate::error::RunError;

/// Keys that can be looked at side by side.
const SIDE_BY_SIDE: usize = 64;

/// What came of a request with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// It began this run.
    Begun(ExecutionId),
    /// The same request began this run before.
    Before(ExecutionId),
    /// Another request began this run with the same key.
    Otherwise(ExecutionId),
}

/// Held while a key is looked at: of two requests with one key, the second finds what the first began.
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
        // One of them: the remainder is smaller than their number.
        &self.locks[usize::try_from(which).unwrap_or(0)]
    }
}

impl Engine {
    /// Begins an execution, unless this key began one; `asked` is the digest of the request.
    pub async fn begin_once(
        self: &Arc<Self>,
        who: Principal,
        ask: Ask,
        key: &str,
        asked: Hash,
    ) -> Result<Once, RunError> {
        let _alone = self.keys.of(who, key).lock().await;
        let claim = Claim {
            principal: who,
            key: key.to_owned(),
            asked,
            execution: ExecutionId::generate()?,
        };
        let execution = claim.execution;
        let execution = match self.store.claim(claim).await? {
            Claimed::Now => execution,
            Claimed::Otherwise(other) => return Ok(Once::Otherwise(other)),
            Claimed::Before(earlier) if self.began(who, earlier).await? => return Ok(Once::Before(earlier)),
            // The key was written, and then nothing began: now it does.
            Claimed::Before(never) => never,
        };
        self.begin_as(execution, who, ask).await?;
        Ok(Once::Begun(execution))
    }

    async fn began(&self, who: Principal, execution: ExecutionId) -> Result<bool, RunError> {
        let is_here = self.runs.find(who, execution).is_some();
        Ok(is_here || self.store.execution(execution).await.map_err(unread)?.is_some())
    }
}
