//! The rules in force, and everything that lives under them. A change is in force at once for whatever comes, and whatever
//! it forbids is closed before anybody is told of the change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_policy::{HostRequest, Policy, Verdict};
use tokio::sync::{Notify, watch};

/// How long a change waits for what it closed to be gone, before and after it cuts the line.
const CLOSING: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// The policy of a session as it is now, and its crossings.
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

/// Something that is open, as far as rules are about it.
#[derive(Debug, Clone)]
pub(super) struct Crossing {
    pub(super) request: HostRequest,
    /// Where it is connected to, once that is known.
    pub(super) addresses: Vec<IpAddr>,
    /// Its requests are not seen: it must end where rules want to see them.
    pub(super) unseen: bool,
    /// Told when it must end and does not, because nobody reads what it waits to say.
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

/// The rules as they were at one moment.
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

    /// A place for what was judged at `moment`; none if the rules changed since, then it must be judged again.
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

    /// Puts other rules in force and closes what they forbid.
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

    /// Closes everything.
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
        // Whoever does not leave even so sends nothing more: the flag is looked at before each byte.
        let _ = tokio::time::timeout(CLOSING[1], all_left).await;
    }
}

/// A crossing's right to stay open.
#[derive(Debug)]
pub(super) struct Place {
    rules: Arc<Rules>,
    id: u64,
    closed: watch::Receiver<bool>,
}

impl Place {
    /// Whether it must end now.
    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Whether it was a change that ended it, also one that is being made right now.
    pub(super) fn was_closed(&self) -> bool {
        let _no_change_under_way = self.rules.state();
        self.is_closed()
    }

    /// Waits until it must end.
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
