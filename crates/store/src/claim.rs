//! Idempotency keys: which run a client's key began, so that a request that is sent again begins no other.

use ringfence_journal::{ExecutionId, Hash, Principal, RecordError};

use crate::Store;
use crate::writer::Command;

/// A key that a client gives with a request for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose key.
    pub principal: Principal,
    /// The key.
    pub key: String,
    /// The digest of what was asked for.
    pub asked: Hash,
    /// The run that begins with it.
    pub execution: ExecutionId,
}

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The run of this claim: nobody used the key before.
    Now,
    /// This run, which was asked for in the same words.
    Before(ExecutionId),
    /// A run that was asked for in other words.
    Otherwise(ExecutionId),
}

impl Store {
    /// Gives a key to a run, unless it has one: keys last a day, and the newest ten thousand of a principal.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, RecordError> {
        let claim = Box::new(claim);
        self.send(|reply| Command::Claim { claim, reply }).await
    }
}
