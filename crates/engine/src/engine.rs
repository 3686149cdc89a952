//! What lives as long as the process: the store, the lease, the backend, and the switches of what runs.

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

/// Sandboxes of one kind that wait warm.
const MOST_IDLE: usize = 32;
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
    /// What is hidden in skills.
    #[error(transparent)]
    Data(#[from] ScreenError),
}

/// The engine.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) native: Arc<Native>,
    pub(crate) pool: Arc<Pool>,
    /// The door, also where there are no tool servers: skills are called through it.
    door: Arc<Gateway>,
    pub(crate) library: Library,
    pub(crate) nests: Nests,
    /// Who is asked for addresses, and whose word is taken for names: the same for all sessions.
    pub(crate) egress: EgressSettings,
    guests: Arc<Guests>,
    checks: Mutex<Vec<(Principal, Arc<TypeCheck>)>>,
    pub(crate) switches: Switches,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Arc<Runs>,
    pub(crate) ruled: Ruled,
    /// What the machine carries at once.
    pub(crate) budget: Arc<Budget<Principal>>,
    pub(crate) host_work: HostWork,
    pub(crate) bells: Bells,
    /// Held while a session that keeps files is looked for: of two requests, one finds what the other opened.
    pub(crate) reopening: tokio::sync::Mutex<()>,
    pub(crate) keys: Keys,
    /// Held while an execution that had no process is taken up.
    pub(crate) taking: tokio::sync::Mutex<()>,
    pub(crate) standing: Standing,
    /// Rates that the sessions of a principal share.
    pub(crate) tenants: Tenants,
    closing: watch::Sender<bool>,
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
            Engine::attend_waiting(&engine, front.idle);
            engine.door.spawn_indexer();
        }
        Ok(engine)
    }

    /// Opens the data folder, sweeps after the dead, and gets the backend ready.
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

    /// The door that every call of code leaves through.
    pub(crate) fn door(&self) -> &Arc<Gateway> {
        &self.door
    }

    /// The door, where there are tool servers.
    pub fn gateway(&self) -> Option<&Arc<Gateway>> {
        Some(&self.door).filter(|_| !self.settings.servers.is_empty())
    }

    /// The tools and the skills of `who`, in a session also its own, as `policy` shows them.
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

    /// The same for a program of a session, under the policy that it runs under.
    pub(crate) fn discover_in(&self, session: &Session, language: ringfence_catalog::Language) -> Discover {
        let whose = Some(Whose::of(session));
        Discover::new(&self.door, &self.library, whose, Arc::clone(&session.policy), language)
    }

    /// The end of the process comes next: what was recorded stays, and nothing more is waited for.
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
        // Who finds the lease dead goes on with what the database has: it has everything by then.
        store.leave().await;
        drop(lease);
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

    /// Where the places on disk of a session are made that end with it.
    pub(crate) fn folders(&self, session: SessionId) -> PathBuf {
        self.settings.home.join("scratch").join(session.to_string())
    }

    /// Where the places on disk of an execution that has a sandbox of its own in a session are made.
    pub(crate) fn folders_of(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("workspaces").join(execution.to_string())
    }

    /// Where the files are kept that an execution left.
    pub(crate) fn artifacts(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("artifacts").join(execution.to_string())
    }

    /// The data folder.
    pub fn home(&self) -> &Path {
        &self.settings.home
    }

    /// Where the whole of what was cut is kept, for who has only what a command printed.
    pub(crate) fn results(&self, execution: ExecutionId) -> PathBuf {
        self.settings.home.join("results").join(execution.to_string())
    }

    /// Makes sandboxes ready for requests that say nothing of their own.
    pub async fn warm(&self, language: Language, count: usize) -> Result<(), crate::error::RunError> {
        let Some(front) = &self.settings.front else {
            return Ok(());
        };
        // A policy that cannot be held is refused to whoever asks, not here.
        let folders = self.settings.home.join("scratch");
        if let Ok(spec) = self.spec(&front.policy, Disk::passing(&folders), false)
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
        *self.closing.borrow()
    }

    pub(crate) fn close_door(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until no more requests are taken.
    pub(crate) async fn leaving(&self) {
        // The sender is the engine's own.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The door to the configured servers.
fn door(settings: &Settings, guests: &Arc<Guests>) -> Arc<Gateway> {
    let options = Options {
        spawner: Some(Arc::clone(guests) as Arc<dyn Spawner>),
        ..Options::new(Arc::clone(&settings.environment))
    };
    let upstreams = Upstreams::new(settings.servers.clone(), Keep::new(&settings.home), options);
    Arc::new(Gateway::new(upstreams, Learnt::open(&settings.home)))
}
