//! What lives as long as the process: the store, the lease, the backend, and the switches of what runs.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_check::{Tools, TypeCheck};
use ringfence_gateway::{Gateway, Keep, Learnt, Options, Servers, Spawner, Upstreams};
use ringfence_journal::{Event, Kind, Principal, Recorder as _, SessionId};
use ringfence_policy::{Built, Mechanism, Policy};
use ringfence_sandbox::{LaunchError, Native, Pool, Spec, Stop, WorkerProgram};
use ringfence_store::{Lease, LeaseError, Resource, Sink, Store};
use tokio::sync::watch;

use crate::discover::Discover;
use crate::guest::Guests;
use crate::sweep;

type Switches = Arc<Mutex<HashMap<SessionId, watch::Sender<bool>>>>;

/// Sandboxes of one kind that wait warm.
const MOST_IDLE: usize = 8;

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
    /// What `env:NAME` and `${NAME}` in a server's entry read.
    pub environment: ringfence_gateway::Environment,
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
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Lease,
    pub(crate) native: Arc<Native>,
    pub(crate) pool: Pool,
    gateway: Option<Arc<Gateway>>,
    guests: Arc<Guests>,
    pub(crate) check: TypeCheck,
    switches: Switches,
}

impl Engine {
    /// Opens the data folder, sweeps after the dead, and gets the backend ready.
    pub async fn open(settings: Settings) -> Result<Engine, OpenError> {
        let worker = tokio::task::spawn_blocking(WorkerProgram::load);
        let store = Arc::new(Store::open_with(&settings.home, &settings.sinks).await?);
        let lease = Lease::acquire(&settings.home)?;
        sweep::after_the_dead(&store).await?;
        let worker = worker.await.map_err(|_| LaunchError::Abandoned)??;
        let native = Arc::new(Native::with_worker(worker, &sweep::group_name(lease.id()))?);
        for path in native.remains() {
            lease.note(Resource::Cgroup { path })?;
        }
        let switches = Arc::new(Mutex::new(HashMap::new()));
        listen(&store, &lease, &switches)?;
        let pool = Pool::new(Arc::clone(&native), MOST_IDLE);
        let guests = Arc::new(Guests::new(
            Arc::clone(&native),
            settings.server_policies.clone(),
            settings.python.clone(),
            settings.home.join("workspaces"),
        ));
        let gateway = gateway(&settings, &guests);
        let check = TypeCheck::new(Arc::clone(&native), settings.checkers.clone());
        Ok(Engine {
            settings,
            store,
            lease,
            native,
            pool,
            gateway,
            guests,
            check,
            switches,
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
        Built::foundation().with(Mechanism::Tools)
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
            check,
            ..
        } = self;
        check.end().await;
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

    /// Makes `count` sandboxes for TypeScript ready ahead of time.
    pub async fn warm(&self, spec: &Arc<Spec>, count: usize) -> Result<(), ringfence_sandbox::TakeError> {
        let principal = self.settings.principal.to_string();
        self.pool
            .warm(spec, ringfence_sandbox::Language::TypeScript, &principal, count)
            .await
    }

    /// A switch that ends what runs in `session`, also when another process pulls it.
    pub(crate) fn switch(&self, session: SessionId) -> (Switch, Stop) {
        let (sender, stop) = Stop::new();
        self.switches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session, sender);
        (
            Switch {
                session,
                switches: Arc::clone(&self.switches),
            },
            stop,
        )
    }

    /// Ends what runs in this process: all of it.
    pub fn cancel_all(&self) {
        for switch in self.switches.lock().unwrap_or_else(PoisonError::into_inner).values() {
            switch.send_replace(true);
        }
    }
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

/// A session's switch, gone when the session is.
#[derive(Debug)]
pub(crate) struct Switch {
    session: SessionId,
    switches: Switches,
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.switches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.session);
    }
}

/// Hears what other processes ask this one to stop, writes it down, and stops it.
fn listen(store: &Arc<Store>, lease: &Lease, switches: &Switches) -> Result<(), LeaseError> {
    let mut stops = store.stops(lease)?;
    let (store, switches) = (Arc::clone(store), Arc::clone(switches));
    tokio::spawn(async move {
        loop {
            let stop = match stops.next().await {
                Ok(stop) => stop,
                Err(error) => {
                    tracing::error!(%error, "cannot hear requests to stop any more");
                    return;
                }
            };
            let asked = Event::host(stop.session, None, Kind::StopRequested { by: stop.by });
            // The one act that is not held up by its record: what should end, ends.
            if let Err(error) = store.record(asked).await {
                tracing::error!(%error, session = %stop.session, "a request to stop could not be written down");
            }
            if let Some(switch) = switches
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&stop.session)
            {
                switch.send_replace(true);
            }
        }
    });
    Ok(())
}
