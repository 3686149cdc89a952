//! The engine: opens the parts that run executions, hands them out, and shuts them down.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_policy::{Policy, SupportedCapabilities};
use ringfence_sandbox::{Backend, BackendKind, BackendLaunchError, WorkerProgram};
use ringfence_store::{Lease, LeasedResource, Store, remove_old_results, trim_recordings_rarely};
use tokio::sync::mpsc;

use crate::approvals::notifier::ApprovalNotifier;
use crate::approvals::{Approvals, standing_rules};
use crate::cancel::{self, CancelSwitches};
use crate::closing::ClosingSignal;
use crate::config::{EngineConfig, EngineOpenError};
use crate::error::OperationError;
use crate::execution::Executions;
use crate::output::OutputObserver;
use crate::records::SessionRecords;
use crate::replay::{ReplayError, ReplayReport, Replays};
use crate::report::ExecutionReport;
use crate::request::{ExecutionRequest, ResultAudience};
use crate::runs::ClientRuns;
use crate::runs::registry::RunRegistry;
use crate::sandboxed_server::SandboxedServers;
use crate::sandboxes::{Sandboxes, supported_capabilities};
use crate::sessions::Sessions;
use crate::skills::manage::Skills;
use crate::tools::Tools;
use crate::workspaces::Workspaces;
use crate::workspaces::gc::SweepBudget;
use crate::{sinks, sweep};

/// How often shutdown checks that all references are gone, and at what interval.
const MAX_SHUTDOWN_POLLS: u32 = 400;
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs executions in sandboxes and records them: each part owns what it works on.
pub struct Engine {
    store: Arc<Store>,
    lease: Arc<Lease>,
    backend: Arc<Backend>,
    servers: Arc<SandboxedServers>,
    sandboxes: Arc<Sandboxes>,
    tools: Arc<Tools>,
    approvals: Arc<Approvals>,
    workspaces: Arc<Workspaces>,
    sessions: Arc<Sessions>,
    executions: Arc<Executions>,
    runs: Arc<ClientRuns>,
    skills: Arc<Skills>,
    /// Sessions that another process asked to stop.
    stop_requests: Mutex<Option<mpsc::UnboundedReceiver<SessionId>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("config", &self.sandboxes.config)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an engine for front doors: it closes idle sessions and keeps sandboxes warm.
    pub async fn open_for_serving(config: EngineConfig) -> Result<Arc<Engine>, EngineOpenError> {
        let engine = Arc::new(Engine::open(config).await?);
        if let Some(front) = &engine.runs.config.serve {
            let stopped = lock(&engine.stop_requests).take();
            engine.runs.spawn_maintenance(front, stopped);
            engine.runs.resumption.spawn_resume_loop(front.idle);
            engine.tools.gateway.spawn_indexer();
        }
        Ok(engine)
    }

    /// Opens the data folder, sweeps after dead processes, and prepares the backend.
    pub fn open(config: EngineConfig) -> BoxFuture<'static, Result<Engine, EngineOpenError>> {
        Box::pin(open_engine(config))
    }

    /// Makes the parts, each from those that it uses.
    fn assemble(
        config: &Arc<EngineConfig>,
        store: Arc<Store>,
        lease: Arc<Lease>,
        backend: Arc<Backend>,
    ) -> Result<Engine, EngineOpenError> {
        let (cancel_switches, registry) = (CancelSwitches::default(), Arc::new(RunRegistry::default()));
        let (notifier, closing) = (ApprovalNotifier::default(), ClosingSignal::new());
        let stopped = cancel::spawn_stop_listener(&store, &lease, &cancel_switches, &registry, &notifier)?;
        let servers = Arc::new(SandboxedServers {
            backend: Arc::clone(&backend),
            settings: Arc::clone(config),
            store: Arc::clone(&store),
            lease: Arc::clone(&lease),
            switches: Arc::clone(&cancel_switches),
            running: Mutex::default(),
        });
        let records = Arc::new(SessionRecords::new(&store, &lease, &config.home, backend.kind()));
        let sandboxes = Arc::new(Sandboxes::new(config, &backend, &closing));
        let tools = Arc::new(Tools::open(config, &store, &servers)?);
        let approvals = Arc::new(Approvals::new(&store, notifier, &config.home));
        let workspaces = Arc::new(Workspaces::new(&records));
        let sessions = Arc::new(Sessions::new(config, &workspaces, &sandboxes, &registry));
        let executions = Arc::new(Executions::new(&sessions, &approvals, &tools, cancel_switches));
        let runs = Arc::new(ClientRuns::new(&executions));
        Ok(Engine {
            skills: Arc::new(Skills::new(&tools, &sessions)),
            store,
            lease,
            backend,
            servers,
            sandboxes,
            tools,
            approvals,
            workspaces,
            sessions,
            executions,
            runs,
            stop_requests: Mutex::new(Some(stopped)),
        })
    }

    /// Runs `request` to its end, in a session of its own or in the one that it names, and shows output to `live` as it comes.
    pub fn run<'a>(
        &'a self,
        request: ExecutionRequest,
        live: &'a mut dyn OutputObserver,
    ) -> BoxFuture<'a, Result<ExecutionReport, OperationError>> {
        Box::pin(self.executions.run(request, live))
    }

    /// Replays a past execution offline, and compares the outcomes.
    pub fn replay<'a>(
        &'a self,
        id: ExecutionId,
        against: Option<&'a Policy>,
        reader: ResultAudience,
    ) -> BoxFuture<'a, Result<ReplayReport, ReplayError>> {
        let replays = Replays::new(&self.executions);
        Box::pin(async move { replays.replay(id, against, reader).await })
    }

    /// Cancels everything that runs in this process.
    pub fn cancel_all(&self) {
        self.executions.cancel_all();
    }

    /// The runs of clients.
    pub fn runs(&self) -> &Arc<ClientRuns> {
        &self.runs
    }

    /// The sessions of this process.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The workspaces that outlive their process.
    pub fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// The tools that programs call.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The skills that principals save.
    pub fn skills(&self) -> &Skills {
        &self.skills
    }

    /// The approval requests of this process.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The provider of sandboxes.
    pub fn sandboxes(&self) -> &Sandboxes {
        &self.sandboxes
    }

    /// The store, for code that shows its records.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The backend that makes sandboxes.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The data folder of the engine.
    pub fn home(&self) -> &Path {
        &self.sandboxes.config.home
    }

    /// The mechanisms that exist: a policy that needs another is refused when a session opens.
    pub fn capabilities() -> SupportedCapabilities {
        supported_capabilities()
    }

    /// Whether the engine takes no more requests.
    pub fn is_closing(&self) -> bool {
        self.sandboxes.closing.is_closed()
    }

    /// Shuts the engine down as the last act of the process: stops its servers, completes the store, and frees the lease.
    pub fn shutdown(self) -> BoxFuture<'static, ()> {
        Box::pin(shutdown_engine(self))
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
}

/// Opens the data folder, sweeps after dead processes, and prepares the backend.
async fn open_engine(config: EngineConfig) -> Result<Engine, EngineOpenError> {
    let worker = tokio::task::spawn_blocking(|| WorkerProgram::load(BackendKind::default()));
    let (near, far) = sinks::open_sinks(&config)?;
    let store = Arc::new(Store::open_with_remotes(&config.home, &near, far).await?);
    let lease = Arc::new(Lease::acquire(&config.home)?);
    sweep::sweep_dead_processes(&store).await?;
    remove_old_results(&config.home);
    let worker = worker.await.map_err(|_| BackendLaunchError::Abandoned)??;
    let backend = Arc::new(Backend::with_worker(worker, &sweep::group_name(lease.id()))?);
    for path in backend.leftover_folders() {
        lease.note_resource(LeasedResource::Cgroup { path })?;
    }
    let engine = Engine::assemble(&Arc::new(config), store, lease, backend)?;
    engine.workspaces.sweep_workspaces(SweepBudget::START).await;
    if let Err(error) = standing_rules::recover_pending_rule(&engine.store, engine.home()).await {
        tracing::warn!(%error, "an answer given for good has no rule yet; people are asked again");
    }
    Ok(engine)
}

/// Shuts the parts down, each before those that it uses.
async fn shutdown_engine(engine: Engine) {
    let has_servers = engine.tools.tool_gateway().is_some();
    let Engine {
        store,
        lease,
        backend,
        servers,
        sandboxes,
        tools,
        approvals,
        workspaces,
        sessions,
        executions,
        runs,
        skills,
        stop_requests,
    } = engine;
    executions.type_checks.end_all().await;
    let (gateway, tasks) = (Arc::clone(&tools.gateway), Arc::downgrade(&executions));
    drop((sandboxes, tools, approvals, workspaces, sessions));
    drop((executions, runs, skills, stop_requests));
    if !is_dropped_soon(&tasks).await {
        tracing::warn!("somebody still holds the engine; the next start sweeps after it");
        store.close_for_exit().await;
        return;
    }
    if has_servers {
        gateway.upstreams().close();
        servers.wait_until_stopped().await;
        if let Err(error) = gateway.observed_types().save() {
            tracing::warn!(%error, "types learnt from results could not be kept");
        }
    }
    let groups = backend.leftover_folders();
    drop((servers, backend, gateway));
    for path in groups.into_iter().filter(|path| !path.exists()) {
        if let Err(error) = lease.forget_resource(&LeasedResource::Cgroup { path }) {
            tracing::warn!(%error, "the next start will sweep what is gone already");
        }
    }
    trim_recordings_rarely(&store).await;
    // A process that finds the lease dead resumes from the database, which is complete by then.
    store.close_for_exit().await;
    drop(lease);
}

/// Whether the tasks that hold a part end within the time that shutdown waits.
async fn is_dropped_soon<T>(part: &Weak<T>) -> bool {
    for _ in 0..MAX_SHUTDOWN_POLLS {
        if part.strong_count() == 0 {
            return true;
        }
        tokio::time::sleep(SHUTDOWN_POLL_INTERVAL).await;
    }
    false
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
