//! What lives as long as the process: the store, the lease, the backend, and the switches of what runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ringfence_check::{Tools, TypeCheck};
use ringfence_gateway::{Credentials, EgressSettings, Gateway, Keep, Learnt, Options, Servers, Spawner, Upstreams};
use ringfence_journal::{ExecutionId, Principal, SessionId};
use ringfence_policy::{Built, Mechanism, Policy};
use ringfence_sandbox::{Language, LaunchError, Native, Pool, PoolCounts, Spec, WorkerProgram};
use ringfence_store::{Lease, LeaseError, Resource, Store};
use tokio::sync::{Semaphore, mpsc};

use crate::ask::Front;
use crate::discover::Discover;
use crate::guest::Guests;
use crate::rules::Ruled;
use crate::runs::Runs;
use crate::session::Sessions;
use crate::sinks::{self, Sink};
use crate::sweep;
use crate::switch::{self, Switches};

/// Sandboxes of one kind that wait warm.
const MOST_IDLE: usize = 32;
/// Executions that run at once; more wait for a place.
const MOST_AT_ONCE: usize = 64;
/// Principals whose type checkers stand.
const MOST_CHECKERS: usize = 4;
/// How often it is looked whether everybody has let go, and when.
const PARTING: u32 = 400;
const A_MOMENT: Duration = Duration::from_millis(5);

/// What the engine is made with.
#[derive(Clone)]
pub struct Settings {
    /// The data folder.
    pub home: PathBuf,
    /// Where records go besides the journal.
    pub sinks: Vec<Sink>,
    /// Who runs.
    pub principal: Principal,
    /// The Python to use instead of the system's.
    pub python: Option<PathBuf>,
    /// Tool servers.
    pub servers: Servers,
    /// The policies of tool servers that run in sandboxes of their own.
    pub server_policies: BTreeMap<String, Policy>,
    /// Type checkers.
    pub checkers: Tools,
    /// Secrets for the way out.
    pub credentials: Credentials,
    /// What `env:NAME` and `${NAME}` in a server's entry read.
    pub environment: ringfence_gateway::Environment,
    /// What holds for those who come through a front door; none: there is no such door.
    pub front: Option<Front>,
}

impl fmt::Debug for Settings {
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
pub enum OpenError {
    /// The data folder.
    #[error(transparent)]
    Store(#[from] ringfence_store::OpenError),
    /// An audit sink behind the network.
    #[error("cannot use an audit sink")]
    Sink(#[from] ringfence_gateway::AuditSinkError),
    /// This process's claim in it.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The backend.
    #[error(transparent)]
    Native(#[from] LaunchError),
    /// What dead processes left.
    #[error(transparent)]
    Sweep(#[from] ringfence_store::SweepError),
}

/// The engine.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Lease,
    pub(crate) native: Arc<Native>,
    pub(crate) pool: Arc<Pool>,
    gateway: Option<Arc<Gateway>>,
    /// Who is asked for addresses, and whose word is taken for names: the same for all sessions.
    pub(crate) egress: EgressSettings,
    guests: Arc<Guests>,
    checks: Mutex<Vec<(Principal, Arc<TypeCheck>)>>,
    pub(crate) switches: Switches,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Arc<Runs>,
    pub(crate) ruled: Ruled,
    pub(crate) places: Semaphore,
    closing: AtomicBool,
    /// The place of a request that says nothing of its own, made once: only such places are kept warm.
    pub(crate) usual: OnceLock<Arc<Spec>>,
    /// Sessions that another process asked to stop.
    stopped: Mutex<Option<mpsc::UnboundedReceiver<SessionId>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine for front doors, which ends what nobody uses and keeps sandboxes ready.
    pub async fn serve(settings: Settings) -> Result<Arc<Engine>, OpenError> {
        let engine = Arc::new(Engine::open(settings).await?);
        if let Some(front) = &engine.settings.front {
            let (front, stopped) = (front.clone(), lock(&engine.stopped).take());
            Engine::attend(&engine, &front, stopped);
        }
        Ok(engine)
    }

    /// Opens the data folder, sweeps after the dead, and gets the backend ready.
    pub async fn open(settings: Settings) -> Result<Engine, OpenError> {
        let worker = tokio::task::spawn_blocking(WorkerProgram::load);
        let (near, far) = sinks::open(&settings)?;
        let store = Arc::new(Store::open_to(&settings.home, &near, far).await?);
        let lease = Lease::acquire(&settings.home)?;
        sweep::after_the_dead(&store).await?;
        let worker = worker.await.map_err(|_| LaunchError::Abandoned)??;
        let native = Arc::new(Native::with_worker(worker, &sweep::group_name(lease.id()))?);
        for path in native.remains() {
            lease.note(Resource::Cgroup { path })?;
        }
        let (switches, runs) = (Switches::default(), Arc::new(Runs::default()));
        let stopped = switch::listen(&store, &lease, &switches, &runs)?;
        let pool = Arc::new(Pool::new(Arc::clone(&native), MOST_IDLE));
        let guests = Arc::new(Guests::new(
            Arc::clone(&native),
            settings.server_policies.clone(),
            settings.python.clone(),
            settings.home.join("workspaces"),
        ));
        let gateway = gateway(&settings, &guests);
        Ok(Engine {
            settings,
            store,
            lease,
            native,
            pool,
            gateway,
            egress: EgressSettings::system(),
            guests,
            checks: Mutex::default(),
            switches,
            sessions: Sessions::default(),
            runs,
            ruled: Ruled::default(),
            places: Semaphore::new(MOST_AT_ONCE),
            closing: AtomicBool::new(false),
            usual: OnceLock::new(),
            stopped: Mutex::new(Some(stopped)),
        })
    }

    /// The store, for whoever shows what is in it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The backend.
    pub fn native(&self) -> &Native {
        &self.native
    }

    /// The mechanisms that exist: a policy that needs another is refused when a session opens.
    pub fn built() -> Built {
        Built::foundation().with(Mechanism::Tools).with(Mechanism::Network)
    }

    /// The door, where there are tool servers.
    pub fn gateway(&self) -> Option<&Arc<Gateway>> {
        self.gateway.as_ref()
    }

    /// The tools, as `policy` shows them.
    pub fn discover(&self, policy: Arc<Policy>, language: ringfence_catalog::Language) -> Discover {
        Discover::new(self.gateway.clone(), policy, language)
    }

    /// The end of the process comes next: what was recorded stays, and nothing more is waited for.
    pub async fn leave(self) {
        let Engine {
            store,
            lease,
            native,
            pool,
            gateway,
            guests,
            checks,
            ..
        } = self;
        for (_, check) in checks.into_inner().unwrap_or_else(PoisonError::into_inner) {
            check.end().await;
        }
        if let Some(gateway) = gateway {
            gateway.upstreams().close();
            guests.gone().await;
            if let Err(error) = gateway.learnt().save() {
                tracing::warn!(%error, "types learnt from results could not be kept");
            }
        }
        let groups = native.remains();
        drop((pool, guests, native));
        for path in groups.into_iter().filter(|path| !path.exists()) {
            if let Err(error) = lease.forget(&Resource::Cgroup { path }) {
                tracing::warn!(%error, "the next start will sweep what is gone already");
            }
        }
        drop(lease);
        store.leave().await;
    }

    /// The same for an engine that others hold: once they have let go of it.
    pub async fn part(mut engine: Arc<Engine>) {
        for _ in 0..PARTING {
            match Arc::try_unwrap(engine) {
                Ok(engine) => return engine.leave().await,
                Err(held) => engine = held,
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        tracing::warn!("somebody still holds the engine; the next start sweeps after it");
        engine.store.leave().await;
    }

    /// The type checkers of a principal: they are guests, and serve nobody else.
    pub(crate) fn check(&self, who: Principal) -> Arc<TypeCheck> {
        let mut checks = lock(&self.checks);
        if let Some((_, check)) = checks.iter().find(|(principal, _)| *principal == who) {
            return Arc::clone(check);
        }
        if checks.len() >= MOST_CHECKERS {
            // Dropped once whoever uses it is done, which ends it.
            checks.remove(0);
        }
        let check = Arc::new(TypeCheck::new(Arc::clone(&self.native), self.settings.checkers.clone()));
        checks.push((who, Arc::clone(&check)));
        check
    }

    /// Where the places on disk of a session are made.
    pub(crate) fn folders(&self, session: SessionId) -> PathBuf {
        self.settings.home.join("workspaces").join(session.to_string())
    }

    /// Where the files are kept that an execution left.
    pub(crate) fn artifacts(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("artifacts").join(execution.to_string())
    }

    /// Makes sandboxes ready for requests that say nothing of their own.
    pub async fn warm(&self, language: Language, count: usize) -> Result<(), crate::error::RunError> {
        let Some(front) = &self.settings.front else {
            return Ok(());
        };
        // A policy that cannot be held is refused to whoever asks, not here.
        if let Ok(spec) = self.spec(&front.policy, &self.settings.home.join("workspaces"), false)
            && self.is_usual(&spec)
        {
            self.pool.warm(&spec, language, count).await?;
        }
        Ok(())
    }

    /// How the pool of sandboxes did.
    pub fn pool_counts(&self) -> PoolCounts {
        self.pool.counts()
    }

    /// Whether no more requests are taken.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn close_door(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The door to the configured servers; without any there is none.
fn gateway(settings: &Settings, guests: &Arc<Guests>) -> Option<Arc<Gateway>> {
    if settings.servers.is_empty() {
        return None;
    }
    let options = Options {
        spawner: Some(Arc::clone(guests) as Arc<dyn Spawner>),
        ..Options::new(Arc::clone(&settings.environment))
    };
    let upstreams = Upstreams::new(settings.servers.clone(), Keep::new(&settings.home), options);
    Some(Arc::new(Gateway::new(upstreams, Learnt::open(&settings.home))))
}
