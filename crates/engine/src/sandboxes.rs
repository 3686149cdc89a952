//! The provider of sandboxes: what a policy needs of one, where it comes from, and where it goes afterwards.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ringfence_journal::{Enforcement, Principal};
use ringfence_policy::{Capability, PiiMode, Policy, SecretMode, SupportedCapabilities};
use ringfence_sandbox::{Backend, Budget, JobLanguage, PoolCounts, Sandbox, Spec, SpecOptions, WarmPool};

use crate::closing::ClosingSignal;
use crate::config::EngineConfig;
use crate::data_folder::DataFolder;
use crate::error::OperationError;
use crate::refusal::RunRefusal;
use crate::report;
use crate::workspaces::DiskFolders;

/// Idle sandboxes of one kind that the pool keeps.
const MAX_IDLE_SANDBOXES: usize = 32;

/// Provides sandboxes: compiles their spec, acquires them fresh or from the pool, and takes them back.
pub struct Sandboxes {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) pool: Arc<WarmPool>,
    /// The capacity of the machine that running executions share.
    pub(crate) budget: Arc<Budget<Principal>>,
    /// The spec of a request without a draft, made once: only such sandboxes are kept warm.
    pub(crate) default_spec: OnceLock<Arc<Spec>>,
    pub(crate) closing: ClosingSignal,
}

impl fmt::Debug for Sandboxes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sandboxes").finish_non_exhaustive()
    }
}

impl Sandboxes {
    pub(crate) fn new(config: &Arc<EngineConfig>, backend: &Arc<Backend>, closing: &ClosingSignal) -> Sandboxes {
        let overrides = config.serve.as_ref().map(|front| front.budget).unwrap_or_default();
        Sandboxes {
            config: Arc::clone(config),
            pool: Arc::new(WarmPool::new(Arc::clone(backend), MAX_IDLE_SANDBOXES)),
            backend: Arc::clone(backend),
            budget: Arc::new(Budget::new(overrides)),
            default_spec: OnceLock::new(),
            closing: closing.clone(),
        }
    }

    /// Prepares sandboxes for requests without a draft.
    pub async fn prewarm(&self, language: JobLanguage, count: usize) -> Result<(), OperationError> {
        let Some(front) = &self.config.serve else {
            return Ok(());
        };
        // A policy that cannot be enforced is refused when a request comes, not here.
        let folders = DataFolder::new(&self.config.home).all_scratch();
        if let Ok(spec) = self.spec(&front.policy, DiskFolders::scratch_only(&folders), false)
            && self.is_default_spec(&spec)
        {
            self.pool.warm(&spec, language, count).await?;
        }
        Ok(())
    }

    /// Counts of the sandbox pool since it was made.
    pub fn pool_counts(&self) -> PoolCounts {
        self.pool.counts()
    }

    /// The sandbox spec that a policy needs, or why there is none.
    pub(crate) fn spec(
        &self,
        policy: &Policy,
        disk: DiskFolders<'_>,
        require_hard: bool,
    ) -> Result<Arc<Spec>, RunRefusal> {
        let front = self.config.serve.as_ref().map(|front| front.policy.digest());
        let is_usual = front == Some(policy.digest()) && !require_hard;
        if let Some(usual) = self.default_spec.get().filter(|_| is_usual) {
            return Ok(Arc::clone(usual));
        }
        let spec = self.new_spec(policy, disk, require_hard)?;
        Ok(if is_usual && spec.is_reusable() {
            Arc::clone(self.default_spec.get_or_init(|| spec))
        } else {
            spec
        })
    }

    /// Whether this is the default spec, that of a request without a draft.
    pub(crate) fn is_default_spec(&self, spec: &Arc<Spec>) -> bool {
        self.default_spec.get().is_some_and(|usual| Arc::ptr_eq(usual, spec))
    }

    fn new_spec(&self, policy: &Policy, disk: DiskFolders<'_>, require_hard: bool) -> Result<Arc<Spec>, RunRefusal> {
        if let Some(unbuilt) = policy.unsupported(&supported_capabilities()).first() {
            return Err(RunRefusal {
                code: "policy.unbuilt",
                message: format!("`{}` {}", unbuilt.key, unbuilt.why),
                rule: unbuilt.key.clone(),
                hint: Some(unbuilt.hint.clone()),
            });
        }
        let options = SpecOptions {
            python: self.config.python.clone(),
            folders: Some(disk.folders.to_owned()),
            kept: disk.kept.map(|kept| kept.folder.clone()),
            user: disk.kept.and_then(|kept| kept.user),
        };
        let spec = Spec::new(policy, &options).map_err(|error| report::spec_refusal(&error))?;
        let soft = self.backend.soft_rules(&spec);
        match (require_hard, soft.first()) {
            (true, Some(first)) => Err(RunRefusal {
                code: "policy.soft",
                message: format!("`{}` can only be held by {} here", first.rule, first.mechanism.name()),
                rule: first.rule.to_owned(),
                hint: Some(first.hard_hint().to_owned()),
            }),
            _ => Ok(Arc::new(spec)),
        }
    }

    /// The mechanism that enforces each rule.
    pub(crate) fn enforcement(&self, spec: &Spec, policy: &Policy) -> Vec<Enforcement> {
        let by_the_place = self.backend.enforcement(spec);
        let by_the_gateway = gateway_rules(policy, !self.config.servers.is_empty());
        by_the_place
            .iter()
            .map(report::journal_enforcement)
            .chain(by_the_gateway.into_iter().map(report::gateway_enforcement))
            .collect()
    }

    /// Acquires a sandbox for `language`: a warm one where the pool keeps some.
    pub(crate) async fn acquire(
        &self,
        spec: &Arc<Spec>,
        language: JobLanguage,
        who: Principal,
    ) -> Result<Sandbox, OperationError> {
        if self.is_default_spec(spec) {
            return Ok(self.pool.acquire(spec, language, &who.to_string()).await?);
        }
        Ok(self.backend.launch(spec).await?)
    }

    /// Ends a sandbox, or resets it in the background for the same principal.
    pub(crate) async fn release(
        &self,
        sandbox: Sandbox,
        spec: &Arc<Spec>,
        language: JobLanguage,
        who: Principal,
    ) -> Result<(), OperationError> {
        // Only sandboxes of the default spec are reused: clients could ask for any number of others.
        if !self.is_default_spec(spec) || self.closing.is_closed() {
            return Ok(sandbox.end().await?);
        }
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move { pool.release(sandbox, language, &who.to_string()).await });
        Ok(())
    }
}

/// The mechanisms that exist: a policy that needs another is refused when a session opens.
pub(crate) fn supported_capabilities() -> SupportedCapabilities {
    SupportedCapabilities::foundation()
        .with(Capability::Tools)
        .with(Capability::Network)
        .with(Capability::Approvals)
        .with(Capability::Aliases)
        .with(Capability::SecretRedaction)
        .with(Capability::ReturnCaps)
        .with(Capability::RowCaps)
        .with(Capability::PersistentMounts)
}

/// The rules of a policy that the gateway enforces.
pub fn gateway_rules(policy: &Policy, has_servers: bool) -> Vec<&'static str> {
    let data = policy.data_rules();
    let rules = [
        ("tools", has_servers),
        ("net", policy.net().enabled == Some(true)),
        ("data.pii", data.pii != PiiMode::Off),
        ("data.secrets", data.secrets != SecretMode::Off),
    ];
    rules
        .into_iter()
        .filter_map(|(rule, held)| held.then_some(rule))
        .collect()
}
