//! All upstream servers of a process: one catalog of their tools, and one connection to each.
//!
//! This layer owns which servers there are and when one is connected; [`crate::connection`] owns how.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_catalog::{Catalog, Tool};
use serde_json::{Map, Value};
use tokio::sync::{broadcast, watch};

pub use self::server::UpstreamHealth;
use self::server::{LinkReuse, ServerTools, UpstreamServer};
use crate::call_result::CallResult;
use crate::connection::UpstreamOptions;
use crate::error::{ServerError, UpstreamCallError};
use crate::server_cache::{PinComparison, PinError, ProtocolEra, ServerCache};
use crate::servers::entry::nearest_known;
use crate::servers::{ServerNotice, Servers};
use crate::vault::Vault;

/// Most events that wait for a slow receiver.
const EVENT_CAPACITY: usize = 256;

/// An event of a server, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
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
    /// A server whose tools are needed cannot be listed.
    Unlisted {
        /// Configured name of the server.
        server: String,
        /// The error, with the name of the server in it.
        error: String,
    },
    /// A server that spoke 2026-07-28 before now says that it does not.
    OlderProtocol {
        /// Configured name of the server.
        server: String,
    },
}

/// Most tool names that a message lists for one kind of change.
const MAX_NAMED_TOOLS: usize = 5;

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerEvent::Changed {
                server,
                changed,
                added,
                gone,
            } => {
                let kinds = [("changed", changed), ("new", added), ("gone", gone)];
                let kinds = kinds.iter().filter(|(_, names)| !names.is_empty());
                let kinds: Vec<String> = kinds
                    .map(|(kind, names)| format!("{kind}: {}", abbreviate_names(names)))
                    .collect();
                write!(
                    f,
                    "the tools of server `{server}` are not what they were; {}",
                    kinds.join("; ")
                )
            }
            ServerEvent::SlowStart { server, after, within } => write!(
                f,
                "server `{server}` was started and has not answered for {} s (it may be downloading itself); it has {} s in all",
                after.as_secs(),
                within.as_secs()
            ),
            ServerEvent::Unlisted { server, error } => write!(
                f,
                "{error}; its tools are missing, and `ringfence servers test {server}` says more"
            ),
            ServerEvent::OlderProtocol { server } => write!(
                f,
                "server `{server}` spoke protocol 2026-07-28 before, and now says that it does not"
            ),
        }
    }
}

/// Returns the first of some names, and how many more there are.
fn abbreviate_names(names: &[String]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(MAX_NAMED_TOOLS)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(MAX_NAMED_TOOLS) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The result of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// The number of tools that it listed.
    pub tools: usize,
    /// The protocol the server speaks; `None` for servers that do not speak MCP.
    pub era: Option<ProtocolEra>,
}

/// A snapshot of the tools of all servers.
#[derive(Debug)]
pub struct CatalogSnapshot {
    /// The tools, under canonical names.
    pub catalog: Catalog,
    /// Increases with every change; data built from the catalog is current if this matches.
    pub generation: u64,
}

/// All upstream servers; cheap to clone.
#[derive(Clone)]
pub struct Upstreams {
    hub: Arc<UpstreamHub>,
    by_name: Arc<BTreeMap<String, Arc<UpstreamServer>>>,
    servers: Arc<Servers>,
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_name.keys()).finish()
    }
}

/// The state that all servers share.
struct UpstreamHub {
    cache: ServerCache,
    options: UpstreamOptions,
    vault: Vault,
    generation: watch::Sender<u64>,
    snapshot: Mutex<Option<Arc<CatalogSnapshot>>>,
    /// The servers that could not be listed at last, which was told.
    unlisted: Mutex<BTreeSet<String>>,
    events: broadcast::Sender<ServerEvent>,
}

impl UpstreamHub {
    fn publish(&self, happened: ServerEvent) {
        tracing::info!(?happened, "upstream");
        // Commands that only read have no receiver, which is fine.
        let _ = self.events.send(happened);
    }

    /// Publishes the servers that cannot be listed: each once, until it has been listed.
    fn publish_unlisted(&self, failed: &BTreeMap<String, ServerError>) {
        let told = {
            let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *unlisted, failed.keys().cloned().collect())
        };
        for (server, error) in failed.iter().filter(|(server, _)| !told.contains(*server)) {
            self.publish(ServerEvent::Unlisted {
                server: server.clone(),
                error: error.without_stderr(),
            });
        }
    }

    fn bump_generation(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Upstreams {
    /// Loads the cached listings of these servers; connects to none.
    pub fn new(servers: Servers, keep: ServerCache, options: UpstreamOptions) -> Upstreams {
        let (events, _) = broadcast::channel(EVENT_CAPACITY);
        let hub = Arc::new(UpstreamHub {
            vault: Vault::in_data_folder(keep.home(), &options.environment),
            cache: keep,
            options,
            generation: watch::Sender::new(1),
            snapshot: Mutex::new(None),
            unlisted: Mutex::default(),
            events,
        });
        let upstream = |server: &crate::servers::ConfiguredServer| {
            let kept = hub.cache.read(server);
            let seen = kept.map(|kept| ServerTools::new(kept.listing, kept.era, false));
            let upstream = UpstreamServer::new(server.clone(), Arc::downgrade(&hub), seen);
            (server.name.clone(), upstream)
        };
        let upstreams = servers.iter().map(upstream).collect();
        Upstreams {
            hub: Arc::clone(&hub),
            by_name: Arc::new(upstreams),
            servers: Arc::new(servers),
        }
    }

    /// Returns the servers as configured.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Returns the notices for the operator about the servers.
    pub fn notices(&self) -> Vec<ServerNotice> {
        self.servers.notices()
    }

    /// Subscribes to the events of servers from now on.
    pub fn events(&self) -> broadcast::Receiver<ServerEvent> {
        self.hub.events.subscribe()
    }

    /// Watches the generation of the catalog.
    pub(crate) fn generations(&self) -> watch::Receiver<u64> {
        self.hub.generation.subscribe()
    }

    /// Returns the health of a server.
    pub fn health(&self, server: &str) -> Result<UpstreamHealth, ServerError> {
        Ok(self.find_upstream(server)?.health())
    }

    fn find_upstream(&self, server: &str) -> Result<&Arc<UpstreamServer>, ServerError> {
        self.by_name.get(server).ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            ServerError::Unknown {
                server: server.chars().take(80).collect(),
                nearest: nearest_known(server, &names).map(str::to_owned),
            }
        })
    }

    /// Returns the last known tools without connecting to any server: listed by this process, or from the cache.
    pub fn snapshot(&self) -> Arc<CatalogSnapshot> {
        let generation = *self.hub.generation.borrow();
        let mut known = self.hub.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.generation == generation) {
            return Arc::clone(known);
        }
        let seen = self.by_name.values().filter_map(|upstream| upstream.tools());
        let catalog = Catalog::new(seen.map(|seen| seen.listing.clone()));
        let new = Arc::new(CatalogSnapshot { catalog, generation });
        *known = Some(Arc::clone(&new));
        new
    }

    /// Returns the last known tools; servers that were never listed are listed now, all at once. A server that fails
    /// has no tools, and its error is returned under its name.
    pub async fn list_unlisted(&self) -> (Arc<CatalogSnapshot>, BTreeMap<String, ServerError>) {
        let unseen = self.by_name.values().filter(|upstream| upstream.tools().is_none());
        let failed = self.list(unseen.cloned().collect()).await;
        let failed = failed
            .into_iter()
            .filter_map(|(server, listed)| Some((server, listed.err()?)));
        let failed = failed.collect();
        (self.snapshot(), failed)
    }

    /// As [`Upstreams::list_unlisted`], for callers that only need the tools: a server that fails is an event.
    pub(crate) async fn list_for_use(&self) -> Arc<CatalogSnapshot> {
        let (known, failed) = self.list_unlisted().await;
        self.hub.publish_unlisted(&failed);
        known
    }

    /// Lists one server again, or all at once.
    pub async fn refresh(&self, server: Option<&str>) -> BTreeMap<String, Result<ServerStatus, ServerError>> {
        let upstreams = match server {
            None => self.by_name.values().cloned().collect(),
            Some(server) => match self.find_upstream(server) {
                Ok(upstream) => vec![Arc::clone(upstream)],
                Err(error) => return BTreeMap::from([(server.to_owned(), Err(error))]),
            },
        };
        self.list(upstreams).await
    }

    async fn list(&self, upstreams: Vec<Arc<UpstreamServer>>) -> BTreeMap<String, Result<ServerStatus, ServerError>> {
        let listing = |upstream: Arc<UpstreamServer>| async move {
            let listed = upstream.refresh().await.map(|seen| ServerStatus {
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
    pub async fn ensure_connected(&self, server: &str) -> Result<(), ServerError> {
        self.find_upstream(server)?
            .fresh_connection()
            .await
            .map(|_: (_, LinkReuse)| ())
    }

    /// Whether this process listed a server's tools.
    pub fn is_fresh(&self, server: &str) -> bool {
        self.by_name
            .get(server)
            .and_then(|upstream| upstream.tools())
            .is_some_and(|seen| seen.fresh)
    }

    /// Calls a tool by its name at the server. Dropping the future cancels the call.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Result<CallResult, UpstreamCallError> {
        let upstream = self.find_upstream(server)?;
        match tokio::time::timeout(timeout, upstream.call(tool, arguments)).await {
            Ok(result) => result,
            Err(_) => Err(UpstreamCallError::Timeout {
                server: server.to_owned(),
                tool: tool.to_owned(),
                after: timeout,
            }),
        }
    }

    /// Pins a tool's definition at its first use, and compares later uses with the pin.
    pub fn pin(&self, tool: &Tool) -> Result<PinComparison, PinError> {
        self.hub.cache.pins().pin(tool)
    }

    /// Returns the tools of a server whose pins differ from their definitions in `catalog`; pins none.
    pub fn drifted(&self, catalog: &Catalog, server: &str) -> Result<Vec<String>, PinError> {
        let tools = catalog.server(server).map(|entry| entry.tools.clone());
        let tools = tools.and_then(|tools| catalog.tools().get(tools)).unwrap_or_default();
        let pinned = self.hub.cache.pins().digests()?;
        let drifted = tools.iter().filter(|tool| {
            let pin = pinned.get(tool.name.as_str());
            pin.is_some_and(|digest| *digest != tool.digest.to_string())
        });
        Ok(drifted.map(|tool| tool.name.to_string()).collect())
    }

    /// Pins a tool's current definition.
    pub fn accept(&self, tool: &Tool) -> Result<(), PinError> {
        self.hub.cache.pins().accept(tool)
    }

    /// Closes every connection; child processes end with them.
    pub fn close(&self) {
        for upstream in self.by_name.values() {
            upstream.close();
        }
    }
}
