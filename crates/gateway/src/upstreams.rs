//! All upstream servers of a process: one catalog of their tools, and one connection to each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_catalog::{Catalog, Tool};
use serde_json::{Map, Value};
use tokio::sync::{broadcast, watch};

use crate::answer::CallResult;
use crate::credential::Environment;
use crate::error::{CallError, ServerError};
use crate::keep::{Era, Keep, PinError, Pinned};
use crate::person::Person;
use crate::servers::entry::nearest;
use crate::servers::{Notice, Servers};
use crate::spawner::Spawner;
use crate::upstream::{Condition, Reached, Seen, Upstream};
use crate::vault::Vault;

/// Most events that wait for a slow receiver.
const EVENTS: usize = 256;

/// What upstream servers need from the program.
#[derive(Clone)]
pub struct Options {
    /// Resolves `env:NAME` and `${NAME}`, and provides `PATH`.
    pub environment: Environment,
    /// Starts servers whose entry names a policy; without it these cannot be used.
    pub spawner: Option<Arc<dyn Spawner>>,
    /// Answers elicitation requests of servers; without it servers cannot make any.
    pub person: Option<Person>,
    /// How long a program has to start and open the protocol: some download themselves first.
    pub start: Duration,
    /// How long a remote server has to open the protocol.
    pub connect: Duration,
    /// How long a server has to list its tools.
    pub list: Duration,
}

impl Options {
    /// Creates options with the default timeouts: two minutes to start a program, 30 s each to connect and to list.
    pub fn new(environment: Environment) -> Options {
        Options {
            environment,
            spawner: None,
            person: None,
            start: Duration::from_mins(2),
            connect: Duration::from_secs(30),
            list: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("start", &self.start)
            .field("connect", &self.connect)
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

/// An event of a server, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// Tools of a server have changed.
    Changed {
        /// Configured name of the server.
        server: String,
        /// Tools whose definition is different.
        changed: Vec<String>,
        /// Tools that were not there before.
        added: Vec<String>,
        /// Tools that no longer exist.
        gone: Vec<String>,
    },
    /// A program was started and has not opened the protocol yet.
    SlowStart {
        /// Configured name of the server.
        server: String,
        /// How long the program has had so far.
        after: Duration,
        /// How long the program has in all.
        within: Duration,
    },
    /// A server that spoke 2026-07-28 before now says that it does not.
    OlderProtocol {
        /// Configured name of the server.
        server: String,
    },
}

/// Most tool names that a message lists for one kind of change.
const NAMED: usize = 5;

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happened::Changed {
                server,
                changed,
                added,
                gone,
            } => {
                let kinds = [("changed", changed), ("new", added), ("gone", gone)];
                let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
                let kinds: Vec<String> = kinds.map(|(kind, names)| format!("{kind}: {}", some(names))).collect();
                write!(
                    f,
                    "the tools of server `{server}` are not what they were; {}",
                    kinds.join("; ")
                )
            }
            Happened::SlowStart { server, after, within } => write!(
                f,
                "server `{server}` was started and has not answered for {} s (it may be downloading itself); it has {} s in all",
                after.as_secs(),
                within.as_secs()
            ),
            Happened::OlderProtocol { server } => write!(
                f,
                "server `{server}` spoke protocol 2026-07-28 before, and now says that it does not"
            ),
        }
    }
}

/// Returns the first of some names, and how many more there are.
fn some(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The result of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The number of tools that it listed.
    pub tools: usize,
    /// The protocol the server speaks; `None` for servers that do not speak MCP.
    pub era: Option<Era>,
}

/// A snapshot of the tools of all servers.
#[derive(Debug)]
pub struct Known {
    /// The tools, under canonical names.
    pub catalog: Catalog,
    /// Increases with every change; data built from the catalog is current if this matches.
    pub generation: u64,
}

/// All upstream servers; cheap to clone.
#[derive(Clone)]
pub struct Upstreams {
    hub: Arc<Hub>,
    each: Arc<BTreeMap<String, Arc<Upstream>>>,
    servers: Arc<Servers>,
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.each.keys()).finish()
    }
}

/// The state that all servers share.
pub(crate) struct Hub {
    pub(crate) keep: Keep,
    pub(crate) options: Options,
    pub(crate) vault: Vault,
    generation: watch::Sender<u64>,
    known: Mutex<Option<Arc<Known>>>,
    events: broadcast::Sender<Happened>,
}

impl Hub {
    pub(crate) fn tell(&self, happened: Happened) {
        tracing::info!(?happened, "upstream");
        // Commands that only read have no receiver, which is fine.
        let _ = self.events.send(happened);
    }

    pub(crate) fn renew(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Upstreams {
    /// Loads the cached listings of these servers; connects to none.
    pub fn new(servers: Servers, keep: Keep, options: Options) -> Upstreams {
        let (events, _) = broadcast::channel(EVENTS);
        let hub = Arc::new(Hub {
            vault: Vault::find(keep.home(), &options.environment),
            keep,
            options,
            generation: watch::Sender::new(1),
            known: Mutex::new(None),
            events,
        });
        let upstream = |server: &crate::servers::Server| {
            let kept = hub.keep.read(server);
            let seen = kept.map(|kept| Seen::new(kept.listing, kept.era, false));
            let upstream = Upstream::new(server.clone(), Arc::downgrade(&hub), seen);
            (server.name.clone(), upstream)
        };
        let upstreams = servers.iter().map(upstream).collect();
        Upstreams {
            hub: Arc::clone(&hub),
            each: Arc::new(upstreams),
            servers: Arc::new(servers),
        }
    }

    /// Returns the servers as configured.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Returns the notices for the operator about the servers.
    pub fn notices(&self) -> Vec<Notice> {
        self.servers.notices()
    }

    /// Subscribes to the events of servers from now on.
    pub fn events(&self) -> broadcast::Receiver<Happened> {
        self.hub.events.subscribe()
    }

    /// Watches the generation of the catalog.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.hub.generation.subscribe()
    }

    /// Returns the health of a server.
    pub fn condition(&self, server: &str) -> Result<Condition, ServerError> {
        Ok(self.upstream(server)?.condition())
    }

    fn upstream(&self, server: &str) -> Result<&Arc<Upstream>, ServerError> {
        self.each.get(server).ok_or_else(|| {
            let names: Vec<&str> = self.each.keys().map(String::as_str).collect();
            ServerError::Unknown {
                server: server.chars().take(80).collect(),
                nearest: nearest(server, &names).map(str::to_owned),
            }
        })
    }

    /// Returns the last known tools without connecting to any server: listed by this process, or from the cache.
    pub fn known(&self) -> Arc<Known> {
        let generation = *self.hub.generation.borrow();
        let mut known = self.hub.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.generation == generation) {
            return Arc::clone(known);
        }
        let seen = self.each.values().filter_map(|upstream| upstream.seen());
        let catalog = Catalog::new(seen.map(|seen| seen.listing.clone()));
        let new = Arc::new(Known { catalog, generation });
        *known = Some(Arc::clone(&new));
        new
    }

    /// Returns the last known tools; servers that were never listed are listed now, all at once. A server that fails
    /// has no tools, and its error is returned under its name.
    pub async fn catalog(&self) -> (Arc<Known>, BTreeMap<String, ServerError>) {
        let unseen = self.each.values().filter(|upstream| upstream.seen().is_none());
        let failed = self.list(unseen.cloned().collect()).await;
        let failed = failed
            .into_iter()
            .filter_map(|(server, listed)| Some((server, listed.err()?)));
        let failed = failed.collect();
        (self.known(), failed)
    }

    /// Lists one server again, or all at once.
    pub async fn refresh(&self, server: Option<&str>) -> BTreeMap<String, Result<Status, ServerError>> {
        let upstreams = match server {
            None => self.each.values().cloned().collect(),
            Some(server) => match self.upstream(server) {
                Ok(upstream) => vec![Arc::clone(upstream)],
                Err(error) => return BTreeMap::from([(server.to_owned(), Err(error))]),
            },
        };
        self.list(upstreams).await
    }

    async fn list(&self, upstreams: Vec<Arc<Upstream>>) -> BTreeMap<String, Result<Status, ServerError>> {
        let listing = |upstream: Arc<Upstream>| async move {
            let listed = upstream.refresh().await.map(|seen| Status {
                tools: seen.listing.tools.len(),
                era: seen.era,
            });
            (upstream.name().to_owned(), listed)
        };
        futures::future::join_all(upstreams.into_iter().map(listing))
            .await
            .into_iter()
            .collect()
    }

    /// Connects a server if it is not connected, so that its tools are current. Cheap if it is connected.
    pub async fn ready(&self, server: &str) -> Result<(), ServerError> {
        self.upstream(server)?.link().await.map(|_: (_, Reached)| ())
    }

    /// Whether this process listed a server's tools.
    pub fn is_fresh(&self, server: &str) -> bool {
        self.each
            .get(server)
            .and_then(|upstream| upstream.seen())
            .is_some_and(|seen| seen.fresh)
    }

    /// Calls a tool by its name at the server. Dropping the future cancels the call.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Result<CallResult, CallError> {
        let upstream = self.upstream(server)?;
        match tokio::time::timeout(timeout, upstream.call(tool, arguments)).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Timeout {
                server: server.to_owned(),
                tool: tool.to_owned(),
                after: timeout,
            }),
        }
    }

    /// Pins a tool's definition at its first use, and compares later uses with the pin.
    pub fn pin(&self, tool: &Tool) -> Result<Pinned, PinError> {
        self.hub.keep.pins().pin(tool)
    }

    /// Returns the tools of a server whose pins differ from their definitions in `catalog`; pins none.
    pub fn drifted(&self, catalog: &Catalog, server: &str) -> Result<Vec<String>, PinError> {
        let tools = catalog.server(server).map(|entry| entry.tools.clone());
        let tools = tools.and_then(|tools| catalog.tools().get(tools)).unwrap_or_default();
        let pinned = self.hub.keep.pins().digests()?;
        let drifted = tools.iter().filter(|tool| {
            let pin = pinned.get(tool.name.as_str());
            pin.is_some_and(|digest| *digest != tool.digest.to_string())
        });
        Ok(drifted.map(|tool| tool.name.to_string()).collect())
    }

    /// Pins a tool's current definition.
    pub fn accept(&self, tool: &Tool) -> Result<(), PinError> {
        self.hub.keep.pins().accept(tool)
    }

    /// Closes every connection; child processes end with them.
    pub fn close(&self) {
        for upstream in self.each.values() {
            upstream.close();
        }
    }
}
