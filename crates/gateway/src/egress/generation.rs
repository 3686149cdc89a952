//! The policy in force, and the flows that run under it. A new policy applies at once to new flows, and the flows
//! that it forbids are closed before the change is reported.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_policy::{HostRequest, Policy, Verdict};
use tokio::sync::{Notify, watch};

/// How long a change waits for closed flows to end, before and after it hangs up their connections.
const CLOSING: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// The current policy of a session, and the flows that are open under it.
#[derive(Debug)]
pub(super) struct Rules {
    state: Mutex<State>,
    left: Notify,
}

#[derive(Debug)]
struct State {
    generation: u64,
    policy: Arc<Policy>,
    next: u64,
    live: HashMap<u64, (Crossing, watch::Sender<bool>)>,
}

/// The properties of an open flow that rules look at.
#[derive(Debug, Clone)]
pub(super) struct Crossing {
    pub(super) request: HostRequest,
    /// The addresses it is connected to; empty until they are known.
    pub(super) addresses: Vec<IpAddr>,
    /// Its requests are not inspected: it must end if the rules come to require inspection.
    pub(super) unseen: bool,
    /// Notified when the flow must end but is blocked on a write that nobody reads.
    pub(super) line: Option<Arc<Notify>>,
}

impl Crossing {
    fn may_stay(&self, policy: &Policy) -> bool {
        let allowed = |address: &IpAddr| policy.address(*address, &self.request).verdict() == Verdict::Allow;
        policy.host(&self.request).verdict() == Verdict::Allow
            && self.addresses.iter().all(allowed)
            && !(self.unseen && policy.ends_tls(&self.request))
    }
}

/// The policy at one point in time, with its generation.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) generation: u64,
    pub(super) policy: Arc<Policy>,
}

impl Rules {
    pub(super) fn new(policy: Arc<Policy>) -> Rules {
        Rules {
            state: Mutex::new(State {
                generation: 1,
                policy,
                next: 0,
                live: HashMap::new(),
            }),
            left: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Moment {
        let state = self.state();
        Moment {
            generation: state.generation,
            policy: Arc::clone(&state.policy),
        }
    }

    /// Returns a slot for a flow that was checked at `moment`; `None` if the policy has changed since, and the flow
    /// must be checked again.
    pub(super) fn enter(self: &Arc<Self>, moment: &Moment, crossing: Crossing) -> Option<Place> {
        let mut state = self.state();
        if state.generation != moment.generation {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let (close, closed) = watch::channel(false);
        state.live.insert(id, (crossing, close));
        Some(Place {
            rules: Arc::clone(self),
            id,
            closed,
        })
    }

    /// Replaces the policy and closes the flows that it forbids.
    pub(super) async fn change(&self, policy: Arc<Policy>) -> u64 {
        let (generation, closed) = {
            let mut state = self.state();
            state.generation += 1;
            state.policy = Arc::clone(&policy);
            let forbidden = state.live.iter().filter(|(_, (live, _))| !live.may_stay(&policy));
            let closed: Vec<u64> = forbidden
                .map(|(id, (_, close))| {
                    close.send_replace(true);
                    *id
                })
                .collect();
            (state.generation, closed)
        };
        self.gone(&closed).await;
        generation
    }

    /// Closes all open flows.
    pub(super) fn close(&self) {
        for (_, close) in self.state().live.values() {
            close.send_replace(true);
        }
    }

    async fn gone(&self, closed: &[u64]) {
        let all_left = async {
            loop {
                let left = self.left.notified();
                let still = {
                    let state = self.state();
                    closed.iter().any(|id| state.live.contains_key(id))
                };
                if !still {
                    return;
                }
                left.await;
            }
        };
        tokio::pin!(all_left);
        if tokio::time::timeout(CLOSING[0], &mut all_left).await.is_ok() {
            return;
        }
        {
            let state = self.state();
            let still = closed.iter().filter_map(|id| state.live.get(id));
            still
                .filter_map(|(live, _)| live.line.as_ref())
                .for_each(|line| line.notify_one());
        }
        // A flow that does not end even now sends nothing more: the flag is checked before each byte.
        let _ = tokio::time::timeout(CLOSING[1], all_left).await;
    }
}

/// The right of a flow to stay open.
#[derive(Debug)]
pub(super) struct Place {
    rules: Arc<Rules>,
    id: u64,
    closed: watch::Receiver<bool>,
}

impl Place {
    /// Whether the flow must end now.
    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Whether a policy change closed the flow; waits for a change in progress.
    pub(super) fn was_closed(&self) -> bool {
        let _no_change_under_way = self.rules.state();
        self.is_closed()
    }

    /// Waits until the flow must end.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.closed.clone();
        async move {
            if closed.wait_for(|closed| *closed).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.rules.state().live.remove(&self.id);
        self.rules.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
