//! The warm pool: sandboxes that are made and prepared in the background, and during a request only when there is none.
//!
//! The key is the spec's digest and the language. A sandbox in which nothing ran serves any principal; after that it returns
//! only to the principal it served, when its processes are dead and its writable places empty.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_wire::JobLanguage;

use crate::backend::{Backend, BackendLaunchError};
use crate::execution::ExecutionError;
use crate::sandbox::{Sandbox, WipeOutcome};
use crate::spec::Spec;

/// The spec's digest, the language, and the principal that the sandbox served, if any.
type PoolKey = (String, JobLanguage, Option<String>);

/// How often the pool had a warm sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolCounts {
    /// Requests that were served by a warm sandbox.
    pub hits: u64,
    /// Requests that had to wait for a new sandbox.
    pub misses: u64,
}

/// Keeps idle sandboxes that are ready for an execution.
#[derive(Debug)]
pub struct WarmPool {
    backend: Arc<Backend>,
    idle: Mutex<HashMap<PoolKey, Vec<Sandbox>>>,
    max_idle: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Why the pool has no sandbox for a request.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The sandbox could not be made.
    #[error(transparent)]
    Launch(#[from] BackendLaunchError),
    /// The sandbox could not be prepared for its language.
    #[error(transparent)]
    Prepare(#[from] ExecutionError),
}

impl WarmPool {
    /// An empty pool that keeps at most `most_idle` sandboxes for each key.
    pub fn new(backend: Arc<Backend>, max_idle: usize) -> WarmPool {
        let idle = Mutex::new(HashMap::new());
        WarmPool {
            backend,
            idle,
            max_idle,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The counts since the pool was made.
    pub fn counts(&self) -> PoolCounts {
        PoolCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// A sandbox that is ready for `language` and serves `principal` alone.
    pub async fn acquire(
        &self,
        spec: &Arc<Spec>,
        language: JobLanguage,
        principal: &str,
    ) -> Result<Sandbox, PoolError> {
        for whose in [Some(principal), None] {
            let key = pool_key(spec, language, whose);
            while let Some(sandbox) = self.pop(&key) {
                if sandbox.is_sound() {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(sandbox);
                }
            }
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.create(spec, language).await
    }

    /// Makes sandboxes until `count` of them can serve any principal.
    pub async fn warm(&self, spec: &Arc<Spec>, language: JobLanguage, count: usize) -> Result<(), PoolError> {
        let key = pool_key(spec, language, None);
        while self.idle_count(&key) < count.min(self.max_idle) {
            let sandbox = self.create(spec, language).await?;
            self.push(key.clone(), sandbox);
        }
        Ok(())
    }

    /// Takes a sandbox back after use: wipes it and prepares it again, or ends it. Meant for the background.
    pub async fn release(&self, mut sandbox: Sandbox, language: JobLanguage, principal: &str) {
        let spec = Arc::clone(&sandbox.spec);
        let key = pool_key(&spec, language, Some(principal));
        let clean = matches!(sandbox.wipe().await, Ok(WipeOutcome::Clean));
        if clean && self.idle_count(&key) < self.max_idle && sandbox.prepare(language).await.is_ok() {
            self.push(key, sandbox);
        } else if let Err(error) = sandbox.end().await {
            tracing::warn!(%error, "a sandbox could not be ended in order");
        }
    }

    async fn create(&self, spec: &Arc<Spec>, language: JobLanguage) -> Result<Sandbox, PoolError> {
        let mut sandbox = self.backend.launch(spec).await?;
        sandbox.prepare(language).await?;
        Ok(sandbox)
    }

    fn pop(&self, key: &PoolKey) -> Option<Sandbox> {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(key)?
            .pop()
    }

    fn push(&self, key: PoolKey, sandbox: Sandbox) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(key)
            .or_default()
            .push(sandbox);
    }

    fn idle_count(&self, key: &PoolKey) -> usize {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .map_or(0, Vec::len)
    }
}

fn pool_key(spec: &Spec, language: JobLanguage, principal: Option<&str>) -> PoolKey {
    // One engine serves both languages.
    let language = if language == JobLanguage::JavaScript {
        JobLanguage::TypeScript
    } else {
        language
    };
    (spec.digest().to_owned(), language, principal.map(str::to_owned))
}
