//! The policy in force, and the flows that run under it. A new policy applies at once to new flows, and the flows
//! that it forbids are closed before the change is reported.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_policy::{HostRequest, Policy, RuleEffect};
use tokio::sync::{Notify, watch};

/// How long a change waits for closed flows to end, before and after it hangs up their connections.
const CLOSE_TIMEOUTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// The current policy of a session, and the flows that are open under it.
#[derive(Debug)]
pub(super) struct EgressPolicy {
    state: Mutex<EgressPolicyState>,
    left: Notify,
}

#[derive(Debug)]
struct EgressPolicyState {
    generation: u64,
    policy: Arc<Policy>,
    next: u64,
    live: HashMap<u64, (ActiveFlow, watch::Sender<bool>)>,
}

/// The properties of an open flow that rules look at.
#[derive(Debug, Clone)]
pub(super) struct ActiveFlow {
    pub(super) request: HostRequest,
    /// The addresses it is connected to; empty until they are known.
    pub(super) addresses: Vec<IpAddr>,
    /// Its requests are not inspected: it must end if the rules come to require inspection.
    pub(super) is_opaque: bool,
    /// Notified when the flow must end but is blocked on a write that nobody reads.
    pub(super) hang_up: Option<Arc<Notify>>,
}

impl ActiveFlow {
    fn is_allowed(&self, policy: &Policy) -> bool {
        let allowed = |address: &IpAddr| policy.decide_address(*address, &self.request).effect() == RuleEffect::Allow;
        policy.decide_host(&self.request).effect() == RuleEffect::Allow
            && self.addresses.iter().all(allowed)
            && !(self.is_opaque && policy.terminates_tls(&self.request))
    }
}

/// The policy at one point in time, with its generation.
#[derive(Debug, Clone)]
pub(super) struct PolicySnapshot {
    pub(super) generation: u64,
    pub(super) policy: Arc<Policy>,
}

impl EgressPolicy {
    pub(super) fn new(policy: Arc<Policy>) -> EgressPolicy {
        EgressPolicy {
            state: Mutex::new(EgressPolicyState {
                generation: 1,
                policy,
                next: 0,
                live: HashMap::new(),
            }),
            left: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, EgressPolicyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> PolicySnapshot {
        let state = self.state();
        PolicySnapshot {
            generation: state.generation,
            policy: Arc::clone(&state.policy),
        }
    }

    /// Returns a slot for a flow that was checked at `moment`; `None` if the policy has changed since, and the flow
    /// must be checked again.
    pub(super) fn admit(self: &Arc<Self>, moment: &PolicySnapshot, crossing: ActiveFlow) -> Option<EgressSlot> {
        let mut state = self.state();
        if state.generation != moment.generation {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let (close, closed) = watch::channel(false);
        state.live.insert(id, (crossing, close));
        Some(EgressSlot {
            policy: Arc::clone(self),
            id,
            closed,
        })
    }

    /// Replaces the policy and closes the flows that it forbids.
    pub(super) async fn replace_policy(&self, policy: Arc<Policy>) -> u64 {
        let (generation, closed) = {
            let mut state = self.state();
            state.generation += 1;
            state.policy = Arc::clone(&policy);
            let forbidden = state.live.iter().filter(|(_, (live, _))| !live.is_allowed(&policy));
            let closed: Vec<u64> = forbidden
                .map(|(id, (_, close))| {
                    close.send_replace(true);
                    *id
                })
                .collect();
            (state.generation, closed)
        };
        self.wait_until_closed(&closed).await;
        generation
    }

    /// Closes all open flows.
    pub(super) fn close_all(&self) {
        for (_, close) in self.state().live.values() {
            close.send_replace(true);
        }
    }

    async fn wait_until_closed(&self, closed: &[u64]) {
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
        if tokio::time::timeout(CLOSE_TIMEOUTS[0], &mut all_left).await.is_ok() {
            return;
        }
        {
            let state = self.state();
            let still = closed.iter().filter_map(|id| state.live.get(id));
            still
                .filter_map(|(live, _)| live.hang_up.as_ref())
                .for_each(|line| line.notify_one());
        }
        // A flow that does not end even now sends nothing more: the flag is checked before each byte.
        let _ = tokio::time::timeout(CLOSE_TIMEOUTS[1], all_left).await;
    }
}

/// The right of a flow to stay open.
#[derive(Debug)]
pub(super) struct EgressSlot {
    policy: Arc<EgressPolicy>,
    id: u64,
    closed: watch::Receiver<bool>,
}

impl EgressSlot {
    /// Whether the flow must end now.
    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Whether a policy change closed the flow; waits for a change in progress.
    pub(super) fn was_closed_by_change(&self) -> bool {
        let _no_change_under_way = self.policy.state();
        self.is_closed()
    }

    /// Waits until the flow must end.
    pub(super) fn wait_until_closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.closed.clone();
        async move {
            if closed.wait_for(|closed| *closed).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for EgressSlot {
    fn drop(&mut self) {
        self.policy.state().live.remove(&self.id);
        self.policy.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
