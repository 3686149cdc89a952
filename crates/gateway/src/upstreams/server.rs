//! One upstream server: connected on first use, shared by all callers, and not retried for a while after a failure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use ringfence_catalog::{DefinitionDigest, ServerListing};
use serde_json::{Map, Value};

use super::{ServerEvent, UpstreamHub};
use crate::call_result::CallResult;
use crate::connection::conversation::ConversationState;
use crate::connection::{self, ConnectContext, UpstreamConnection};
use crate::error::{ServerError, UpstreamCallError};
use crate::server_cache::ProtocolEra;
use crate::servers::{ConfiguredServer, ServerKind};

/// The end of a connection that lived this long is not a failure.
const MIN_STABLE_LIFETIME: Duration = Duration::from_secs(10);
/// After this time the user is told that a program is slow to start.
const SLOW_START_TIMEOUT: Duration = Duration::from_secs(10);
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Announced changes of a server's tools are gathered for this long, and handled no more often.
const CHANGE_GATHER_INTERVAL: Duration = Duration::from_millis(100);
const RELIST_INTERVAL: Duration = Duration::from_secs(1);

/// The known tools of a server.
#[derive(Debug)]
pub(crate) struct ServerTools {
    pub(crate) listing: ServerListing,
    pub(crate) digests: HashMap<String, DefinitionDigest>,
    pub(crate) era: Option<ProtocolEra>,
    /// Listed by this process, rather than read from the cache.
    pub(crate) fresh: bool,
}

impl ServerTools {
    pub(crate) fn new(listing: ServerListing, era: Option<ProtocolEra>, fresh: bool) -> ServerTools {
        let digests = listing
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), tool.digest()))
            .collect();
        ServerTools {
            listing,
            digests,
            era,
            fresh,
        }
    }
}

type ConnectingFuture = Shared<BoxFuture<'static, Result<Arc<UpstreamConnection>, ServerError>>>;

enum UpstreamLinkState {
    Idle,
    Connecting(ConnectingFuture),
    Connected(Arc<UpstreamConnection>),
    BackingOff {
        until: Instant,
        at: SystemTime,
        cause: ServerError,
    },
}

struct UpstreamState {
    connection: UpstreamLinkState,
    failures: u32,
}

/// Whether a connection was reused or is new.
pub(crate) enum LinkReuse {
    Reused,
    New,
}

/// The health of a server.
#[derive(Debug, Clone)]
pub enum UpstreamHealth {
    /// The server has not been needed yet.
    Idle,
    /// A connection is being made.
    Connecting,
    /// A connection to the server is open.
    Connected {
        /// The protocol it speaks; `None` for servers that do not speak MCP.
        era: Option<ProtocolEra>,
    },
    /// The server failed and is not retried for a while.
    BackingOff {
        /// The time of the next attempt.
        until: SystemTime,
        /// The error of the last attempt.
        cause: ServerError,
    },
}

pub(crate) struct UpstreamServer {
    pub(crate) server: ConfiguredServer,
    hub: Weak<UpstreamHub>,
    state: Mutex<UpstreamState>,
    tools: RwLock<Option<Arc<ServerTools>>>,
    /// Held during a listing, so that an older listing never replaces a newer one.
    relisting: tokio::sync::Mutex<()>,
}

impl UpstreamServer {
    pub(crate) fn new(
        server: ConfiguredServer,
        hub: Weak<UpstreamHub>,
        seen: Option<ServerTools>,
    ) -> Arc<UpstreamServer> {
        Arc::new(UpstreamServer {
            server,
            hub,
            state: Mutex::new(UpstreamState {
                connection: UpstreamLinkState::Idle,
                failures: 0,
            }),
            tools: RwLock::new(seen.map(Arc::new)),
            relisting: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.server.name
    }

    pub(crate) fn tools(&self) -> Option<Arc<ServerTools>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn health(&self) -> UpstreamHealth {
        match &self.state().connection {
            UpstreamLinkState::Idle => UpstreamHealth::Idle,
            UpstreamLinkState::Connecting(_) => UpstreamHealth::Connecting,
            UpstreamLinkState::Connected(link) if link.is_closed() => UpstreamHealth::Idle,
            UpstreamLinkState::Connected(link) => UpstreamHealth::Connected { era: link.era() },
            UpstreamLinkState::BackingOff { at, cause, .. } => UpstreamHealth::BackingOff {
                until: *at,
                cause: cause.clone(),
            },
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, UpstreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared connection, with current tools: lists them again if the server announced a change.
    pub(crate) async fn fresh_connection(
        self: &Arc<Self>,
    ) -> Result<(Arc<UpstreamConnection>, LinkReuse), ServerError> {
        let (link, reached) = self.connection().await?;
        if !link.is_stale() {
            return Ok((link, reached));
        }
        let alone = self.relisting.lock().await;
        if link.is_stale() {
            self.relist(&link).await?;
        }
        drop(alone);
        Ok((link, LinkReuse::New))
    }

    /// Lists the tools over this connection; the caller holds `relisting`.
    async fn relist(&self, link: &UpstreamConnection) -> Result<(), ServerError> {
        let hub = self.hub()?;
        let listing = link.list(hub.options.list_timeout).await?;
        self.store_listing(&hub, listing, link.era());
        Ok(())
    }

    /// Returns the shared connection, and opens it if there is none. A caller that goes away does not cancel that.
    async fn connection(self: &Arc<Self>) -> Result<(Arc<UpstreamConnection>, LinkReuse), ServerError> {
        let connecting = {
            let mut state = self.state();
            if let UpstreamLinkState::Connected(link) = &state.connection {
                if !link.is_closed() {
                    return Ok((Arc::clone(link), LinkReuse::Reused));
                }
                let lived = link.since().elapsed();
                let cause = ServerError::Closed {
                    server: self.name().to_owned(),
                    detail: link.fault().unwrap_or("it ended on its own").to_owned(),
                };
                state.note_failure(cause, lived);
            }
            match &state.connection {
                UpstreamLinkState::Connecting(connecting) => connecting.clone(),
                UpstreamLinkState::BackingOff { until, at, cause } if *until > Instant::now() => {
                    return Err(ServerError::BackingOff {
                        server: self.name().to_owned(),
                        until: *at,
                        cause: Box::new(cause.clone()),
                    });
                }
                UpstreamLinkState::Idle | UpstreamLinkState::Connected(_) | UpstreamLinkState::BackingOff { .. } => {
                    let connecting = self.connect_shared();
                    state.connection = UpstreamLinkState::Connecting(connecting.clone());
                    connecting
                }
            }
        };
        connecting.await.map(|link| (link, LinkReuse::New))
    }

    fn connect_shared(self: &Arc<Self>) -> ConnectingFuture {
        let upstream = Arc::clone(self);
        let task = tokio::spawn(async move {
            let result = upstream.connect().await;
            let mut state = upstream.state();
            match &result {
                Ok(link) => state.connection = UpstreamLinkState::Connected(Arc::clone(link)),
                Err(error) => state.note_failure(error.clone(), Duration::ZERO),
            }
            result
        });
        let upstream = Arc::clone(self);
        async move {
            task.await.unwrap_or_else(|error| {
                upstream.state().connection = UpstreamLinkState::Idle;
                Err(ServerError::Connect {
                    server: upstream.name().to_owned(),
                    detail: error.to_string(),
                })
            })
        }
        .boxed()
        .shared()
    }

    fn hub(&self) -> Result<Arc<UpstreamHub>, ServerError> {
        self.hub.upgrade().ok_or_else(|| ServerError::Closed {
            server: self.name().to_owned(),
            detail: "everything is being closed".to_owned(),
        })
    }

    /// Connects and lists: no tool is called by a definition that only the cache has.
    async fn connect(self: &Arc<Self>) -> Result<Arc<UpstreamConnection>, ServerError> {
        let hub = self.hub()?;
        let before = self.tools().and_then(|seen| seen.era);
        let link = self.open_connection(&hub, before).await?;
        let listing = link.list(hub.options.list_timeout).await?;
        if before == Some(ProtocolEra::Modern) && link.era() == Some(ProtocolEra::Legacy) {
            hub.publish(ServerEvent::OlderProtocol {
                server: self.name().to_owned(),
            });
        }
        let link = Arc::new(link);
        self.store_listing(&hub, listing, link.era());
        drop(hub);
        if let Some(state) = link.state() {
            let task = tokio::spawn(watch_tool_changes(
                Arc::downgrade(self),
                Arc::downgrade(&link),
                Arc::clone(state),
            ));
            link.attach(task.abort_handle());
        }
        Ok(link)
    }

    /// Opens a connection, and publishes an event when a program takes long to start.
    async fn open_connection(
        &self,
        hub: &UpstreamHub,
        before: Option<ProtocolEra>,
    ) -> Result<UpstreamConnection, ServerError> {
        let context = ConnectContext {
            options: &hub.options,
            vault: &hub.vault,
        };
        let mut connecting = connection::connect(context, &self.server, before);
        if !matches!(self.server.source, ServerKind::Program(_)) {
            return connecting.await;
        }
        if let Ok(connected) = tokio::time::timeout(SLOW_START_TIMEOUT, &mut connecting).await {
            return connected;
        }
        hub.publish(ServerEvent::SlowStart {
            server: self.name().to_owned(),
            after: SLOW_START_TIMEOUT,
            within: hub.options.start_timeout,
        });
        connecting.await
    }

    /// Stores a new listing, in memory and on disk, and reports what changed.
    fn store_listing(&self, hub: &UpstreamHub, listing: ServerListing, era: Option<ProtocolEra>) {
        let new = ServerTools::new(listing, era, true);
        let old = self.tools();
        let (mut changed, mut added, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(old) = &old {
            for (name, digest) in &new.digests {
                match old.digests.get(name) {
                    Some(before) if before != digest => changed.push(name.clone()),
                    Some(_) => {}
                    None => added.push(name.clone()),
                }
            }
            gone.extend(
                old.digests
                    .keys()
                    .filter(|name| !new.digests.contains_key(*name))
                    .cloned(),
            );
        }
        let same = old
            .as_ref()
            .is_some_and(|old| old.listing == new.listing && old.era == era);
        if !same && let Err(error) = hub.cache.write(&self.server, era, new.listing.clone()) {
            tracing::warn!(
                server = self.name(),
                error = crate::error_text::error_chain(&error),
                "a listing is not remembered"
            );
        }
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(new));
        if !same {
            hub.bump_generation();
        }
        if !(changed.is_empty() && added.is_empty() && gone.is_empty()) {
            for names in [&mut changed, &mut added, &mut gone] {
                names.sort();
            }
            hub.publish(ServerEvent::Changed {
                server: self.name().to_owned(),
                changed,
                added,
                gone,
            });
        }
    }

    /// Lists the tools again, over the current connection or a new one.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<Arc<ServerTools>, ServerError> {
        let (link, reached) = self.fresh_connection().await?;
        if let LinkReuse::Reused = reached {
            let _alone = self.relisting.lock().await;
            self.relist(&link).await?;
        }
        self.tools().ok_or_else(|| ServerError::List {
            server: self.name().to_owned(),
            detail: "nothing was listed".to_owned(),
        })
    }

    /// Calls a tool over the shared connection.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallResult, UpstreamCallError> {
        let before = self.tools();
        let (link, reached) = self.fresh_connection().await?;
        if let (LinkReuse::New, Some(before)) = (reached, before)
            && let Some(old) = before.digests.get(tool)
            && self.tools().is_some_and(|seen| seen.digests.get(tool) != Some(old))
        {
            return Err(UpstreamCallError::Changed {
                server: self.name().to_owned(),
                tool: tool.to_owned(),
            });
        }
        link.call(tool, arguments).await
    }

    /// Closes the connection; the next use opens another one.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if let UpstreamLinkState::Connected(_) = &state.connection {
            state.connection = UpstreamLinkState::Idle;
        }
    }
}

impl UpstreamState {
    /// Records a failure; the first is forgiven, and each later one doubles the backoff.
    fn note_failure(&mut self, cause: ServerError, lived: Duration) {
        // Errors that only the operator can fix are retried each time.
        let own = matches!(
            cause,
            ServerError::Credential { .. } | ServerError::NoSandbox { .. } | ServerError::Login { .. }
        );
        if own || lived >= MIN_STABLE_LIFETIME {
            self.failures = 0;
        }
        if own {
            self.connection = UpstreamLinkState::Idle;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = backoff_delay(self.failures);
        self.connection = UpstreamLinkState::BackingOff {
            until: Instant::now() + pause,
            at: SystemTime::now() + pause,
            cause,
        };
    }
}

/// Returns a delay that doubles each time, up to a minute, with 25 % jitter so that servers do not return all at
/// once.
fn backoff_delay(failures: u32) -> Duration {
    if failures <= 1 {
        return Duration::ZERO;
    }
    let doubled = INITIAL_BACKOFF.saturating_mul(1u32 << (failures - 2).min(10));
    let mut random = [0u8; 1];
    // Without randomness there is no jitter, which does no harm.
    let _ = getrandom::fill(&mut random);
    let [random] = random;
    let percent = 75 + u32::from(random) * 50 / 255;
    doubled.min(MAX_BACKOFF).saturating_mul(percent) / 100
}

/// Lists the tools again whenever the server announces a change.
async fn watch_tool_changes(
    upstream: Weak<UpstreamServer>,
    link: Weak<UpstreamConnection>,
    state: Arc<ConversationState>,
) {
    loop {
        state.changed.notified().await;
        tokio::time::sleep(CHANGE_GATHER_INTERVAL).await;
        let (Some(upstream), Some(link)) = (upstream.upgrade(), link.upgrade()) else {
            return;
        };
        let alone = upstream.relisting.lock().await;
        if let Err(error) = upstream.relist(&link).await {
            let error = error.without_stderr();
            tracing::warn!(server = upstream.name(), error, "its changed tools cannot be listed");
        }
        drop(alone);
        drop((upstream, link));
        tokio::time::sleep(RELIST_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests;
