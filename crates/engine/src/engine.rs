//! The engine holds what lives as long as the process: the store, the lease, the backend, and the cancel switches of running sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use ringfence_check::{CheckerTools, TypeCheck};
use ringfence_gateway::{
    Credentials, EgressSettings, Gateway, ObservedTypes, RedactionError, RedactionRules, ServerCache, Servers, Spawner,
    Tenants, UpstreamOptions, Upstreams,
};
use ringfence_journal::{ExecutionId, Principal, SessionId};
use ringfence_policy::{Capability, Policy, SupportedCapabilities};
use ringfence_sandbox::{
    BackendLaunchError, Budget, JobLanguage, NativeBackend, PoolCounts, Spec, WarmPool, WorkerProgram,
};
use ringfence_store::{Lease, LeaseError, LeasedResource, Store};
use tokio::sync::{mpsc, watch};

use crate::approval_notifier::ApprovalNotifier;
use crate::cancel::{self, CancelSwitches};
use crate::discover::ToolDiscovery;
use crate::host_work::HostWork;
use crate::idempotency::IdempotencyLocks;
use crate::rules::SessionRulesIndex;
use crate::run_request::ServeConfig;
use crate::runs::RunRegistry;
use crate::sandboxed_server::SandboxedServers;
use crate::session::{ExecutionContext, OpenSessions};
use crate::sinks::{self, AuditSinkConfig};
use crate::skills::nested::NestedPermits;
use crate::skills::{SkillLibrary, SkillLookup};
use crate::standing_rules::{self, StandingRulesFile};
use crate::sweep;
use crate::workspace::DiskFolders;
use crate::workspace_gc::SweepBudget;

/// Idle sandboxes of one kind that the pool keeps.
const MAX_IDLE_SANDBOXES: usize = 32;
/// Principals with running type checkers at once.
const MAX_CHECKERS: usize = 4;
/// How often shutdown checks that all references are gone, and at what interval.
const MAX_SHUTDOWN_POLLS: u32 = 400;
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The configuration that an engine opens with.
#[derive(Clone)]
pub struct EngineConfig {
    /// The data folder, which holds the store, the vault and the workspaces.
    pub home: PathBuf,
    /// Where records go besides the journal.
    pub sinks: Vec<AuditSinkConfig>,
    /// The principal of the process; commands run as it.
    pub principal: Principal,
    /// The Python to use instead of the system's.
    pub python: Option<PathBuf>,
    /// The tool servers that calls can reach.
    pub servers: Servers,
    /// The policies of tool servers that run in sandboxes of their own.
    pub server_policies: BTreeMap<String, Policy>,
    /// The type checkers that check a program before it runs.
    pub checkers: CheckerTools,
    /// Credentials that egress inserts into requests.
    pub credentials: Credentials,
    /// Reads the variables behind `env:NAME` and `${NAME}` in a server's entry.
    pub environment: ringfence_gateway::EnvironmentLookup,
    /// What applies to requests through a front door; none: the engine takes no such requests.
    pub serve: Option<ServeConfig>,
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("home", &self.home)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data folder cannot be opened.
    #[error(transparent)]
    Store(#[from] ringfence_store::OpenStoreError),
    /// A remote audit sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[from] ringfence_gateway::AuditSinkError),
    /// The lease of this process cannot be acquired.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The sandbox backend cannot be prepared.
    #[error(transparent)]
    Native(#[from] BackendLaunchError),
    /// What dead processes left cannot be swept.
    #[error(transparent)]
    Sweep(#[from] ringfence_store::SweepError),
    /// The redaction rules for skills cannot be loaded.
    #[error(transparent)]
    Data(#[from] RedactionError),
}

/// Runs executions in sandboxes and records them.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) native: Arc<NativeBackend>,
    pub(crate) pool: Arc<WarmPool>,
    /// The call gateway. It exists without tool servers too: skills are called through it.
    call_gateway: Arc<Gateway>,
    pub(crate) library: SkillLibrary,
    pub(crate) nested_permits: NestedPermits,
    /// Resolver and trust roots of egress: the same for all sessions.
    pub(crate) egress: EgressSettings,
    servers: Arc<SandboxedServers>,
    checkers: Mutex<Vec<(Principal, Arc<TypeCheck>)>>,
    pub(crate) cancel_switches: CancelSwitches,
    pub(crate) sessions: OpenSessions,
    pub(crate) runs: Arc<RunRegistry>,
    pub(crate) session_rules: SessionRulesIndex,
    /// The capacity of the machine that running executions share.
    pub(crate) budget: Arc<Budget<Principal>>,
    pub(crate) host_work: HostWork,
    pub(crate) approval_notifier: ApprovalNotifier,
    /// Held while a session that keeps files is looked up: of two requests, one finds what the other opened.
    pub(crate) reopening: tokio::sync::Mutex<()>,
    pub(crate) idempotency_locks: IdempotencyLocks,
    /// Held while this process adopts an execution that had no process.
    pub(crate) adopting: tokio::sync::Mutex<()>,
    pub(crate) standing_rules: StandingRulesFile,
    /// Rate limits that the sessions of a principal share.
    pub(crate) tenants: Tenants,
    closing: watch::Sender<bool>,
    /// The sandbox spec of a request without a draft, made once: only such sandboxes are kept warm.
    pub(crate) default_spec: OnceLock<Arc<Spec>>,
    /// Sessions that another process asked to stop.
    stop_requests: Mutex<Option<mpsc::UnboundedReceiver<SessionId>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("settings", &self.config)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an engine for front doors: it closes idle sessions and keeps sandboxes warm.
    pub async fn open_for_serving(settings: EngineConfig) -> Result<Arc<Engine>, EngineOpenError> {
        let engine = Arc::new(Engine::open(settings).await?);
        if let Some(front) = &engine.config.serve {
            let (front, stopped) = (front.clone(), lock(&engine.stop_requests).take());
            Engine::spawn_maintenance(&engine, &front, stopped);
            Engine::spawn_resume_loop(&engine, front.idle);
            engine.call_gateway.spawn_indexer();
        }
        Ok(engine)
    }

    /// Opens the data folder, sweeps after dead processes, and prepares the backend.
    pub fn open(settings: EngineConfig) -> BoxFuture<'static, Result<Engine, EngineOpenError>> {
        Box::pin(Engine::open_parts(settings))
    }

    async fn open_parts(settings: EngineConfig) -> Result<Engine, EngineOpenError> {
        let worker = tokio::task::spawn_blocking(WorkerProgram::load);
        let (near, far) = sinks::open_sinks(&settings)?;
        let store = Arc::new(Store::open_with_remotes(&settings.home, &near, far).await?);
        let lease = Arc::new(Lease::acquire(&settings.home)?);
        sweep::sweep_dead_processes(&store).await?;
        sweep::remove_old_results(&settings.home.join("results"));
        let worker = worker.await.map_err(|_| BackendLaunchError::Abandoned)??;
        let native = Arc::new(NativeBackend::with_worker(worker, &sweep::group_name(lease.id()))?);
        for path in native.leftover_folders() {
            lease.note_resource(LeasedResource::Cgroup { path })?;
        }
        let (switches, runs) = (CancelSwitches::default(), Arc::new(RunRegistry::default()));
        let bells = ApprovalNotifier::default();
        let stopped = cancel::spawn_stop_listener(&store, &lease, &switches, &runs, &bells)?;
        let pool = Arc::new(WarmPool::new(Arc::clone(&native), MAX_IDLE_SANDBOXES));
        let guests = Arc::new(SandboxedServers {
            native: Arc::clone(&native),
            settings: settings.clone(),
            store: Arc::clone(&store),
            lease: Arc::clone(&lease),
            switches: Arc::clone(&switches),
            running: Mutex::default(),
        });
        let door = open_gateway(&settings, &guests);
        let told = settings
            .serve
            .as_ref()
            .map(|front| RedactionRules::from_policy(&front.policy));
        let sight = told.unwrap_or_else(RedactionRules::default_rules)?;
        let library = SkillLibrary::new(store.skills(), Arc::clone(&door), sight);
        let standing = StandingRulesFile::new(&settings.home);
        let overrides = settings.serve.as_ref().map(|front| front.budget).unwrap_or_default();
        let budget = Arc::new(Budget::new(overrides));
        let engine = Engine {
            config: settings,
            store,
            lease,
            native,
            pool,
            call_gateway: door,
            library,
            nested_permits: NestedPermits::default(),
            egress: EgressSettings::system(),
            servers: guests,
            checkers: Mutex::default(),
            cancel_switches: switches,
            sessions: OpenSessions::default(),
            runs,
            session_rules: SessionRulesIndex::default(),
            budget,
            host_work: HostWork::default(),
            approval_notifier: bells,
            idempotency_locks: IdempotencyLocks::default(),
            reopening: tokio::sync::Mutex::default(),
            adopting: tokio::sync::Mutex::default(),
            standing_rules: standing,
            tenants: Tenants::default(),
            closing: watch::Sender::new(false),
            default_spec: OnceLock::new(),
            stop_requests: Mutex::new(Some(stopped)),
        };
        engine.sweep_workspaces(SweepBudget::START).await;
        if let Err(error) = standing_rules::recover_pending_rule(&engine.store, &engine.config.home).await {
            tracing::warn!(%error, "an answer given for good has no rule yet; people are asked again");
        }
        Ok(engine)
    }

    /// The store, for code that shows its records.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The backend that makes sandboxes.
    pub fn native(&self) -> &NativeBackend {
        &self.native
    }

    /// The mechanisms that exist: a policy that needs another is refused when a session opens.
    pub fn capabilities() -> SupportedCapabilities {
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

    /// The gateway that all calls of programs go through.
    pub(crate) fn call_gateway(&self) -> &Arc<Gateway> {
        &self.call_gateway
    }

    /// The gateway; none where no tool servers are configured.
    pub fn tool_gateway(&self) -> Option<&Arc<Gateway>> {
        Some(&self.call_gateway).filter(|_| !self.config.servers.is_empty())
    }

    /// The tools and skills that `policy` shows to `who`, and to a session if one is named.
    pub fn discover(
        &self,
        who: Principal,
        session: Option<SessionId>,
        policy: Arc<Policy>,
        language: ringfence_catalog::StubLanguage,
    ) -> ToolDiscovery {
        let whose = SkillLookup {
            principal: who,
            session,
        };
        ToolDiscovery::new(&self.call_gateway, &self.library, Some(whose), policy, language)
    }

    /// The same for a program of a session, under the policy of its execution.
    pub(crate) fn discover_in(
        &self,
        session: &ExecutionContext,
        language: ringfence_catalog::StubLanguage,
    ) -> ToolDiscovery {
        let whose = Some(SkillLookup::for_context(session));
        ToolDiscovery::new(
            &self.call_gateway,
            &self.library,
            whose,
            Arc::clone(&session.policy),
            language,
        )
    }

    /// Shuts the engine down as the last act of the process: stops its servers, completes the store, and frees the lease.
    pub fn shutdown(self) -> BoxFuture<'static, ()> {
        Box::pin(self.shutdown_parts())
    }

    async fn shutdown_parts(self) {
        let Engine {
            store,
            lease,
            native,
            pool,
            call_gateway: door,
            library,
            config: settings,
            servers: guests,
            checkers: checks,
            ..
        } = self;
        for (_, check) in checks.into_inner().unwrap_or_else(PoisonError::into_inner) {
            check.end().await;
        }
        drop(library);
        if !settings.servers.is_empty() {
            door.upstreams().close();
            guests.wait_until_stopped().await;
            if let Err(error) = door.observed_types().save() {
                tracing::warn!(%error, "types learnt from results could not be kept");
            }
        }
        let groups = native.leftover_folders();
        drop((pool, guests, native, door));
        for path in groups.into_iter().filter(|path| !path.exists()) {
            if let Err(error) = lease.forget_resource(&LeasedResource::Cgroup { path }) {
                tracing::warn!(%error, "the next start will sweep what is gone already");
            }
        }
        sweep::trim_recordings(&store).await;
        // A process that finds the lease dead resumes from the database, which is complete by then.
        store.close_for_exit().await;
        drop(lease);
    }

    /// Shuts down a shared engine, once all other references are gone.
    pub async fn shutdown_shared(mut engine: Arc<Engine>) {
        for _ in 0..MAX_SHUTDOWN_POLLS {
            match Arc::try_unwrap(engine) {
                Ok(engine) => return engine.shutdown().await,
                Err(held) => engine = held,
            }
            tokio::time::sleep(SHUTDOWN_POLL_INTERVAL).await;
        }
        tracing::warn!("somebody still holds the engine; the next start sweeps after it");
        engine.store.close_for_exit().await;
    }

    /// The type checkers of a principal: they run in sandboxes and serve nobody else.
    pub(crate) fn type_checker(&self, who: Principal) -> Arc<TypeCheck> {
        let mut checks = lock(&self.checkers);
        if let Some((_, check)) = checks.iter().find(|(principal, _)| *principal == who) {
            return Arc::clone(check);
        }
        if checks.len() >= MAX_CHECKERS {
            // Dropped once its last user is done, which ends it.
            checks.remove(0);
        }
        let check = Arc::new(TypeCheck::new(Arc::clone(&self.native), self.config.checkers.clone()));
        checks.push((who, Arc::clone(&check)));
        check
    }

    /// The folder on disk of what a session loses when it ends.
    pub(crate) fn scratch_folder(&self, session: SessionId) -> PathBuf {
        self.config.home.join("scratch").join(session.to_string())
    }

    /// The folder on disk of an execution that has a sandbox of its own in a session.
    pub(crate) fn execution_scratch_folder(&self, execution: ExecutionId) -> PathBuf {
        self.config.home.join("workspaces").join(execution.to_string())
    }

    /// The folder of the files that an execution left.
    pub(crate) fn artifacts_folder(&self, execution: ExecutionId) -> PathBuf {
        self.config.home.join("artifacts").join(execution.to_string())
    }

    /// The data folder of the engine.
    pub fn home(&self) -> &Path {
        &self.config.home
    }

    /// The folder of the full output of truncated results, for readers who have only what a command printed.
    pub(crate) fn results_folder(&self, execution: ExecutionId) -> PathBuf {
        self.config.home.join("results").join(execution.to_string())
    }

    /// Prepares sandboxes for requests without a draft.
    pub async fn prewarm(&self, language: JobLanguage, count: usize) -> Result<(), crate::error::OperationError> {
        let Some(front) = &self.config.serve else {
            return Ok(());
        };
        // A policy that cannot be enforced is refused when a request comes, not here.
        let folders = self.config.home.join("scratch");
        if let Ok(spec) = self.sandbox_spec(&front.policy, DiskFolders::scratch_only(&folders), false)
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

    /// Whether the engine takes no more requests.
    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub(crate) fn stop_accepting(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until the engine takes no more requests.
    pub(crate) async fn wait_until_closing(&self) {
        // The engine itself holds the sender.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the gateway to the configured servers.
fn open_gateway(settings: &EngineConfig, guests: &Arc<SandboxedServers>) -> Arc<Gateway> {
    let options = UpstreamOptions {
        spawner: Some(Arc::clone(guests) as Arc<dyn Spawner>),
        ..UpstreamOptions::new(Arc::clone(&settings.environment))
    };
    let upstreams = Upstreams::new(settings.servers.clone(), ServerCache::new(&settings.home), options);
    Arc::new(Gateway::new(upstreams, ObservedTypes::open(&settings.home)))
}
