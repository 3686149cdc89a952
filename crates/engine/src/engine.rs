//! The engine holds what lives as long as the process: the store, the lease, the backend, and the cancel switches of running sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ringfence_check::{Tools, TypeCheck};
use ringfence_gateway::{
    Credentials, EgressSettings, Gateway, Keep, Learnt, Options, ScreenError, Servers, Sight, Spawner, Tenants,
    Upstreams,
};
use ringfence_journal::{ExecutionId, Principal, SessionId};
use ringfence_policy::{Built, Mechanism, Policy};
use ringfence_sandbox::{Budget, Language, LaunchError, Native, Pool, PoolCounts, Spec, WorkerProgram};
use ringfence_store::{Lease, LeaseError, Resource, Store};
use tokio::sync::{mpsc, watch};

use crate::ask::Front;
use crate::bells::Bells;
use crate::discover::Discover;
use crate::guest::Guests;
use crate::host_work::HostWork;
use crate::once::Keys;
use crate::rules::Ruled;
use crate::runs::Runs;
use crate::session::{Session, Sessions};
use crate::sinks::{self, Sink};
use crate::skills::nested::Nests;
use crate::skills::{Library, Whose};
use crate::standing::{self, Standing};
use crate::sweep;
use crate::switch::{self, Switches};
use crate::tidy::Share;
use crate::workspace::Disk;

/// Idle sandboxes of one kind that the pool keeps.
const MOST_IDLE: usize = 32;
/// Principals with running type checkers at once.
const MOST_CHECKERS: usize = 4;
/// How often shutdown checks that all references are gone, and at what interval.
const PARTING: u32 = 400;
const A_MOMENT: Duration = Duration::from_millis(5);

/// The configuration that an engine opens with.
#[derive(Clone)]
pub struct Settings {
    /// The data folder, which holds the store, the vault and the workspaces.
    pub home: PathBuf,
    /// Where records go besides the journal.
    pub sinks: Vec<Sink>,
    /// The principal of the process; commands run as it.
    pub principal: Principal,
    /// The Python to use instead of the system's.
    pub python: Option<PathBuf>,
    /// The tool servers that calls can reach.
    pub servers: Servers,
    /// The policies of tool servers that run in sandboxes of their own.
    pub server_policies: BTreeMap<String, Policy>,
    /// The type checkers that check a program before it runs.
    pub checkers: Tools,
    /// Credentials that egress inserts into requests.
    pub credentials: Credentials,
    /// Reads the variables behind `env:NAME` and `${NAME}` in a server's entry.
    pub environment: ringfence_gateway::Environment,
    /// What applies to requests through a front door; none: the engine takes no such requests.
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
    /// The data folder cannot be opened.
    #[error(transparent)]
    Store(#[from] ringfence_store::OpenError),
    /// A remote audit sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[from] ringfence_gateway::AuditSinkError),
    /// The lease of this process cannot be acquired.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The sandbox backend cannot be prepared.
    #[error(transparent)]
    Native(#[from] LaunchError),
    /// What dead processes left cannot be swept.
    #[error(transparent)]
    Sweep(#[from] ringfence_store::SweepError),
    /// The redaction rules for skills cannot be loaded.
    #[error(transparent)]
    Data(#[from] ScreenError),
}

/// Runs executions in sandboxes and records them.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) native: Arc<Native>,
    pub(crate) pool: Arc<Pool>,
    /// The call gateway. It exists without tool servers too: skills are called through it.
    door: Arc<Gateway>,
    pub(crate) library: Library,
    pub(crate) nests: Nests,
    /// Resolver and trust roots of egress: the same for all sessions.
    pub(crate) egress: EgressSettings,
    guests: Arc<Guests>,
    checks: Mutex<Vec<(Principal, Arc<TypeCheck>)>>,
    pub(crate) switches: Switches,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Arc<Runs>,
    pub(crate) ruled: Ruled,
    /// The capacity of the machine that running executions share.
    pub(crate) budget: Arc<Budget<Principal>>,
    pub(crate) host_work: HostWork,
    pub(crate) bells: Bells,
    /// Held while a session that keeps files is looked up: of two requests, one finds what the other opened.
    pub(crate) reopening: tokio::sync::Mutex<()>,
    pub(crate) keys: Keys,
    /// Held while this process adopts an execution that had no process.
    pub(crate) taking: tokio::sync::Mutex<()>,
    pub(crate) standing: Standing,
    /// Rate limits that the sessions of a principal share.
    pub(crate) tenants: Tenants,
    closing: watch::Sender<bool>,
    /// The sandbox spec of a request without a draft, made once: only such sandboxes are kept warm.
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
    /// Opens an engine for front doors: it closes idle sessions and keeps sandboxes warm.
    pub async fn serve(settings: Settings) -> Result<Arc<Engine>, OpenError> {
        let engine = Arc::new(Engine::open(settings).await?);
        if let Some(front) = &engine.settings.front {
            let (front, stopped) = (front.clone(), lock(&engine.stopped).take());
            Engine::attend(&engine, &front, stopped);
            Engine::attend_waiting(&engine, front.idle);
            engine.door.spawn_indexer();
        }
        Ok(engine)
    }

    /// Opens the data folder, sweeps after dead processes, and prepares the backend.
    pub async fn open(settings: Settings) -> Result<Engine, OpenError> {
        let worker = tokio::task::spawn_blocking(WorkerProgram::load);
        let (near, far) = sinks::open(&settings)?;
        let store = Arc::new(Store::open_to(&settings.home, &near, far).await?);
        let lease = Arc::new(Lease::acquire(&settings.home)?);
        sweep::after_the_dead(&store).await?;
        sweep::old_results(&settings.home.join("results"));
        let worker = worker.await.map_err(|_| LaunchError::Abandoned)??;
        let native = Arc::new(Native::with_worker(worker, &sweep::group_name(lease.id()))?);
        for path in native.remains() {
            lease.note(Resource::Cgroup { path })?;
        }
        let (switches, runs) = (Switches::default(), Arc::new(Runs::default()));
        let bells = Bells::default();
        let stopped = switch::listen(&store, &lease, &switches, &runs, &bells)?;
        let pool = Arc::new(Pool::new(Arc::clone(&native), MOST_IDLE));
        let guests = Arc::new(Guests {
            native: Arc::clone(&native),
            settings: settings.clone(),
            store: Arc::clone(&store),
            lease: Arc::clone(&lease),
            switches: Arc::clone(&switches),
            running: Mutex::default(),
        });
        let door = door(&settings, &guests);
        let told = settings.front.as_ref().map(|front| Sight::of(&front.policy));
        let sight = told.unwrap_or_else(Sight::usual)?;
        let library = Library::new(store.skills(), Arc::clone(&door), sight);
        let standing = Standing::new(&settings.home);
        let overrides = settings.front.as_ref().map(|front| front.budget).unwrap_or_default();
        let budget = Arc::new(Budget::new(overrides));
        let engine = Engine {
            settings,
            store,
            lease,
            native,
            pool,
            door,
            library,
            nests: Nests::default(),
            egress: EgressSettings::system(),
            guests,
            checks: Mutex::default(),
            switches,
            sessions: Sessions::default(),
            runs,
            ruled: Ruled::default(),
            budget,
            host_work: HostWork::default(),
            bells,
            keys: Keys::default(),
            reopening: tokio::sync::Mutex::default(),
            taking: tokio::sync::Mutex::default(),
            standing,
            tenants: Tenants::default(),
            closing: watch::Sender::new(false),
            usual: OnceLock::new(),
            stopped: Mutex::new(Some(stopped)),
        };
        engine.sweep_workspaces(Share::START).await;
        if let Err(error) = standing::recover(&engine.store, &engine.settings.home).await {
            tracing::warn!(%error, "an answer given for good has no rule yet; people are asked again");
        }
        Ok(engine)
    }

    /// The store, for code that shows its records.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The backend that makes sandboxes.
    pub fn native(&self) -> &Native {
        &self.native
    }

    /// The mechanisms that exist: a policy that needs another is refused when a session opens.
    pub fn built() -> Built {
        Built::foundation()
            .with(Mechanism::Tools)
            .with(Mechanism::Network)
            .with(Mechanism::Approvals)
            .with(Mechanism::Aliases)
            .with(Mechanism::SecretRedaction)
            .with(Mechanism::ReturnCaps)
            .with(Mechanism::RowCaps)
            .with(Mechanism::KeptWorkspace)
    }

    /// The gateway that all calls of programs go through.
    pub(crate) fn door(&self) -> &Arc<Gateway> {
        &self.door
    }

    /// The gateway; none where no tool servers are configured.
    pub fn gateway(&self) -> Option<&Arc<Gateway>> {
        Some(&self.door).filter(|_| !self.settings.servers.is_empty())
    }

    /// The tools and skills that `policy` shows to `who`, and to a session if one is named.
    pub fn discover(
        &self,
        who: Principal,
        session: Option<SessionId>,
        policy: Arc<Policy>,
        language: ringfence_catalog::Language,
    ) -> Discover {
        let whose = Whose {
            principal: who,
            session,
        };
        Discover::new(&self.door, &self.library, Some(whose), policy, language)
    }

    /// The same for a program of a session, under the policy of its execution.
    pub(crate) fn discover_in(&self, session: &Session, language: ringfence_catalog::Language) -> Discover {
        let whose = Some(Whose::of(session));
        Discover::new(&self.door, &self.library, whose, Arc::clone(&session.policy), language)
    }

    /// Shuts the engine down as the last act of the process: stops its servers, completes the store, and frees the lease.
    pub async fn leave(self) {
        let Engine {
            store,
            lease,
            native,
            pool,
            door,
            library,
            settings,
            guests,
            checks,
            ..
        } = self;
        for (_, check) in checks.into_inner().unwrap_or_else(PoisonError::into_inner) {
            check.end().await;
        }
        drop(library);
        if !settings.servers.is_empty() {
            door.upstreams().close();
            guests.gone().await;
            if let Err(error) = door.learnt().save() {
                tracing::warn!(%error, "types learnt from results could not be kept");
            }
        }
        let groups = native.remains();
        drop((pool, guests, native, door));
        for path in groups.into_iter().filter(|path| !path.exists()) {
            if let Err(error) = lease.forget(&Resource::Cgroup { path }) {
                tracing::warn!(%error, "the next start will sweep what is gone already");
            }
        }
        sweep::old_recordings(&store).await;
        // A process that finds the lease dead resumes from the database, which is complete by then.
        store.leave().await;
        drop(lease);
    }

    /// Shuts down a shared engine, once all other references are gone.
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

    /// The type checkers of a principal: they run in sandboxes and serve nobody else.
    pub(crate) fn check(&self, who: Principal) -> Arc<TypeCheck> {
        let mut checks = lock(&self.checks);
        if let Some((_, check)) = checks.iter().find(|(principal, _)| *principal == who) {
            return Arc::clone(check);
        }
        if checks.len() >= MOST_CHECKERS {
            // Dropped once its last user is done, which ends it.
            checks.remove(0);
        }
        let check = Arc::new(TypeCheck::new(Arc::clone(&self.native), self.settings.checkers.clone()));
        checks.push((who, Arc::clone(&check)));
        check
    }

    /// The folder on disk of what a session loses when it ends.
    pub(crate) fn folders(&self, session: SessionId) -> PathBuf {
        self.settings.home.join("scratch").join(session.to_string())
    }

    /// The folder on disk of an execution that has a sandbox of its own in a session.
    pub(crate) fn folders_of(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("workspaces").join(execution.to_string())
    }

    /// The folder of the files that an execution left.
    pub(crate) fn artifacts(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("artifacts").join(execution.to_string())
    }

    /// The data folder of the engine.
    pub fn home(&self) -> &Path {
        &self.settings.home
    }

    /// The folder of the full output of truncated results, for readers who have only what a command printed.
    pub(crate) fn results(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("results").join(execution.to_string())
    }

    /// Prepares sandboxes for requests without a draft.
    pub async fn warm(&self, language: Language, count: usize) -> Result<(), crate::error::RunError> {
        let Some(front) = &self.settings.front else {
            return Ok(());
        };
        // A policy that cannot be enforced is refused when a request comes, not here.
        let folders = self.settings.home.join("scratch");
        if let Ok(spec) = self.spec(&front.policy, Disk::passing(&folders), false)
            && self.is_usual(&spec)
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

    pub(crate) fn close_door(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until the engine takes no more requests.
    pub(crate) async fn leaving(&self) {
        // The engine itself holds the sender.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the gateway to the configured servers.
fn door(settings: &Settings, guests: &Arc<Guests>) -> Arc<Gateway> {
    let options = Options {
        spawner: Some(Arc::clone(guests) as Arc<dyn Spawner>),
        ..Options::new(Arc::clone(&settings.environment))
    };
    let upstreams = Upstreams::new(settings.servers.clone(), Keep::new(&settings.home), options);
    Arc::new(Gateway::new(upstreams, Learnt::open(&settings.home)))
}
