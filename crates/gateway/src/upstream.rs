//! One upstream server: connected on first use, shared by all callers, and not retried for a while after a failure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use ringfence_catalog::{Digest, Listing};
use serde_json::{Map, Value};

use crate::answer::CallResult;
use crate::connect;
use crate::conversation::ConversationState;
use crate::error::{CallError, ServerError};
use crate::keep::Era;
use crate::link::Link;
use crate::servers::Server;
use crate::upstreams::{Happened, Hub};

/// The end of a connection that lived this long is not a failure.
const STEADY: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Announced changes of a server's tools are gathered for this long, and handled no more often.
const GATHER: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);

/// The known tools of a server.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) listing: Listing,
    pub(crate) digests: HashMap<String, Digest>,
    pub(crate) era: Option<Era>,
    /// Listed by this process, rather than read from the cache.
    pub(crate) fresh: bool,
}

impl Seen {
    pub(crate) fn new(listing: Listing, era: Option<Era>, fresh: bool) -> Seen {
        let digests = listing
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), tool.digest()))
            .collect();
        Seen {
            listing,
            digests,
            era,
            fresh,
        }
    }
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Link>, ServerError>>>;

enum Now {
    Idle,
    Connecting(Connecting),
    Linked(Arc<Link>),
    Off {
        until: Instant,
        at: SystemTime,
        cause: ServerError,
    },
}

struct State {
    now: Now,
    failures: u32,
}

/// Whether a connection was reused or is new.
pub(crate) enum Reached {
    Before,
    Now,
}

/// The health of a server.
#[derive(Debug, Clone)]
pub enum Condition {
    /// The server has not been needed yet.
    Idle,
    /// A connection is being made.
    Connecting,
    /// A connection to the server is open.
    Connected {
        /// The protocol it speaks; `None` for servers that do not speak MCP.
        era: Option<Era>,
    },
    /// The server failed and is not retried for a while.
    BackingOff {
        /// The time of the next attempt.
        until: SystemTime,
        /// The error of the last attempt.
        cause: ServerError,
    },
}

pub(crate) struct Upstream {
    pub(crate) server: Server,
    hub: Weak<Hub>,
    state: Mutex<State>,
    seen: RwLock<Option<Arc<Seen>>>,
    /// Held during a listing, so that an older listing never replaces a newer one.
    relisting: tokio::sync::Mutex<()>,
}

impl Upstream {
    pub(crate) fn new(server: Server, hub: Weak<Hub>, seen: Option<Seen>) -> Arc<Upstream> {
        Arc::new(Upstream {
            server,
            hub,
            state: Mutex::new(State {
                now: Now::Idle,
                failures: 0,
            }),
            seen: RwLock::new(seen.map(Arc::new)),
            relisting: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.server.name
    }

    pub(crate) fn seen(&self) -> Option<Arc<Seen>> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn condition(&self) -> Condition {
        match &self.state().now {
            Now::Idle => Condition::Idle,
            Now::Connecting(_) => Condition::Connecting,
            Now::Linked(link) if link.is_closed() => Condition::Idle,
            Now::Linked(link) => Condition::Connected { era: link.era() },
            Now::Off { at, cause, .. } => Condition::BackingOff {
                until: *at,
                cause: cause.clone(),
            },
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared connection, with current tools: lists them again if the server announced a change.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<(Arc<Link>, Reached), ServerError> {
        let (link, reached) = self.connected().await?;
        if !link.is_stale() {
            return Ok((link, reached));
        }
        let alone = self.relisting.lock().await;
        if link.is_stale() {
            self.relist(&link).await?;
        }
        drop(alone);
        Ok((link, Reached::Now))
    }

    /// Lists the tools over this connection; the caller holds `relisting`.
    async fn relist(&self, link: &Link) -> Result<(), ServerError> {
        let hub = self.hub()?;
        let listing = link.list(hub.options.list).await?;
        self.learn(&hub, listing, link.era());
        Ok(())
    }

    /// Returns the shared connection, and opens it if there is none. A caller that goes away does not cancel that.
    async fn connected(self: &Arc<Self>) -> Result<(Arc<Link>, Reached), ServerError> {
        let connecting = {
            let mut state = self.state();
            if let Now::Linked(link) = &state.now {
                if !link.is_closed() {
                    return Ok((Arc::clone(link), Reached::Before));
                }
                let lived = link.since().elapsed();
                let cause = ServerError::Closed {
                    server: self.name().to_owned(),
                    detail: link.fault().unwrap_or("it ended on its own").to_owned(),
                };
                state.failed(cause, lived);
            }
            match &state.now {
                Now::Connecting(connecting) => connecting.clone(),
                Now::Off { until, at, cause } if *until > Instant::now() => {
                    return Err(ServerError::BackingOff {
                        server: self.name().to_owned(),
                        until: *at,
                        cause: Box::new(cause.clone()),
                    });
                }
                Now::Idle | Now::Linked(_) | Now::Off { .. } => {
                    let connecting = self.connecting();
                    state.now = Now::Connecting(connecting.clone());
                    connecting
                }
            }
        };
        connecting.await.map(|link| (link, Reached::Now))
    }

    fn connecting(self: &Arc<Self>) -> Connecting {
        let upstream = Arc::clone(self);
        let task = tokio::spawn(async move {
            let result = upstream.connect().await;
            let mut state = upstream.state();
            match &result {
                Ok(link) => state.now = Now::Linked(Arc::clone(link)),
                Err(error) => state.failed(error.clone(), Duration::ZERO),
            }
            result
        });
        let upstream = Arc::clone(self);
        async move {
            task.await.unwrap_or_else(|error| {
                upstream.state().now = Now::Idle;
                Err(ServerError::Connect {
                    server: upstream.name().to_owned(),
                    detail: error.to_string(),
                })
            })
        }
        .boxed()
        .shared()
    }

    fn hub(&self) -> Result<Arc<Hub>, ServerError> {
        self.hub.upgrade().ok_or_else(|| ServerError::Closed {
            server: self.name().to_owned(),
            detail: "everything is being closed".to_owned(),
        })
    }

    /// Connects and lists: no tool is called by a definition that only the cache has.
    async fn connect(self: &Arc<Self>) -> Result<Arc<Link>, ServerError> {
        let hub = self.hub()?;
        let before = self.seen().and_then(|seen| seen.era);
        let link = connect::connect(&hub, &self.server, before).await?;
        let listing = link.list(hub.options.list).await?;
        if before == Some(Era::Modern) && link.era() == Some(Era::Legacy) {
            hub.tell(Happened::OlderProtocol {
                server: self.name().to_owned(),
            });
        }
        let link = Arc::new(link);
        self.learn(&hub, listing, link.era());
        drop(hub);
        if let Some(state) = link.state() {
            let task = tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&link), Arc::clone(state)));
            link.attach(task.abort_handle());
        }
        Ok(link)
    }

    /// Stores a new listing, in memory and on disk, and reports what changed.
    fn learn(&self, hub: &Hub, listing: Listing, era: Option<Era>) {
        let new = Seen::new(listing, era, true);
        let old = self.seen();
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
        if !same && let Err(error) = hub.keep.write(&self.server, era, new.listing.clone()) {
            tracing::warn!(
                server = self.name(),
                error = crate::talk::said(&error),
                "a listing is not remembered"
            );
        }
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(new));
        if !same {
            hub.renew();
        }
        if !(changed.is_empty() && added.is_empty() && gone.is_empty()) {
            for names in [&mut changed, &mut added, &mut gone] {
                names.sort();
            }
            hub.tell(Happened::Changed {
                server: self.name().to_owned(),
                changed,
                added,
                gone,
            });
        }
    }

    /// Lists the tools again, over the current connection or a new one.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<Arc<Seen>, ServerError> {
        let (link, reached) = self.link().await?;
        if let Reached::Before = reached {
            let _alone = self.relisting.lock().await;
            self.relist(&link).await?;
        }
        self.seen().ok_or_else(|| ServerError::List {
            server: self.name().to_owned(),
            detail: "nothing was listed".to_owned(),
        })
    }

    /// Calls a tool over the shared connection.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallResult, CallError> {
        let before = self.seen();
        let (link, reached) = self.link().await?;
        if let (Reached::Now, Some(before)) = (reached, before)
            && let Some(old) = before.digests.get(tool)
            && self.seen().is_some_and(|seen| seen.digests.get(tool) != Some(old))
        {
            return Err(CallError::Changed {
                server: self.name().to_owned(),
                tool: tool.to_owned(),
            });
        }
        link.call(tool, arguments).await
    }

    /// Closes the connection; the next use opens another one.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if let Now::Linked(_) = &state.now {
            state.now = Now::Idle;
        }
    }
}

impl State {
    /// Records a failure; the first is forgiven, and each later one doubles the backoff.
    fn failed(&mut self, cause: ServerError, lived: Duration) {
        // Errors that only the operator can fix are retried each time.
        let own = matches!(
            cause,
            ServerError::Credential { .. } | ServerError::NoSandbox { .. } | ServerError::Login { .. }
        );
        if own || lived >= STEADY {
            self.failures = 0;
        }
        if own {
            self.now = Now::Idle;
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = pause(self.failures);
        self.now = Now::Off {
            until: Instant::now() + pause,
            at: SystemTime::now() + pause,
            cause,
        };
    }
}

/// Returns a delay that doubles each time, up to a minute, with 25 % jitter so that servers do not return all at
/// once.
fn pause(failures: u32) -> Duration {
    if failures <= 1 {
        return Duration::ZERO;
    }
    let doubled = FIRST_PAUSE.saturating_mul(1u32 << (failures - 2).min(10));
    let mut random = [0u8; 1];
    // Without randomness there is no jitter, which does no harm.
    let _ = getrandom::fill(&mut random);
    let [random] = random;
    let percent = 75 + u32::from(random) * 50 / 255;
    doubled.min(LONGEST_PAUSE).saturating_mul(percent) / 100
}

/// Lists the tools again whenever the server announces a change.
async fn watch(upstream: Weak<Upstream>, link: Weak<Link>, state: Arc<ConversationState>) {
    loop {
        state.changed.notified().await;
        tokio::time::sleep(GATHER).await;
        let (Some(upstream), Some(link)) = (upstream.upgrade(), link.upgrade()) else {
            return;
        };
        let alone = upstream.relisting.lock().await;
        if let Err(error) = upstream.relist(&link).await {
            let error = error.without_words();
            tracing::warn!(server = upstream.name(), error, "its changed tools cannot be listed");
        }
        drop(alone);
        drop((upstream, link));
        tokio::time::sleep(REST).await;
    }
}

#[cfg(test)]
mod tests;
