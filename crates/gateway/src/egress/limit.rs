//! Network limits of a session: concurrent connections, rate, and bytes in all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use ringfence_policy::NetLimits;

use crate::refusal::RequestRefusal;

/// The network counters of one session.
#[derive(Debug)]
pub(super) struct EgressLimiter {
    limits: RwLock<NetLimits>,
    open: AtomicUsize,
    recent: Mutex<VecDeque<Instant>>,
    bytes: AtomicU64,
    /// Whether a refusal was recorded since the limiter last admitted something.
    is_refusal_recorded: AtomicBool,
}

/// The permit of one open connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionPermit(Arc<EgressLimiter>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A refusal at a limit, and whether it is the first since the limiter last admitted something: only the first is
/// recorded, so that refusals do not flood the journal.
#[derive(Debug)]
pub(super) struct LimitExceeded {
    pub(super) refusal: RequestRefusal,
    pub(super) first: bool,
}

impl EgressLimiter {
    pub(super) fn new(limits: NetLimits) -> EgressLimiter {
        EgressLimiter {
            limits: RwLock::new(limits),
            open: AtomicUsize::new(0),
            recent: Mutex::default(),
            bytes: AtomicU64::new(0),
            is_refusal_recorded: AtomicBool::new(false),
        }
    }

    fn limits(&self) -> NetLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the limits; counters keep their values.
    pub(super) fn set_limits(&self, limits: NetLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Takes a permit for one more connection.
    pub(super) fn acquire_connection(self: &Arc<Self>) -> Result<ConnectionPermit, LimitExceeded> {
        let most = usize::try_from(self.limits().connections).unwrap_or(usize::MAX);
        let taken = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < most).then_some(open + 1)
        });
        if taken.is_ok() {
            return Ok(ConnectionPermit(Arc::clone(self)));
        }
        let refusal = RequestRefusal::new("limit.connections", format!("{most} connections are open already"))
            .by_rule("net.limits.connections")
            .with_hint("close connections, or use fewer at once");
        Err(self.limit_exceeded(refusal))
    }

    /// Counts one connection or request, if the rate and the byte budget allow it.
    pub(super) fn count_request(&self) -> Result<(), LimitExceeded> {
        let limits = self.limits();
        if self.bytes.load(Ordering::Acquire) >= limits.bytes.get() {
            return Err(self.limit_exceeded(bytes_refusal(&limits)));
        }
        let (now, window) = (Instant::now(), limits.rate.window().duration());
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|at| now.duration_since(*at) >= window) {
            recent.pop_front();
        }
        if recent.len() < usize::try_from(limits.rate.count()).unwrap_or(usize::MAX) {
            recent.push_back(now);
            self.is_refusal_recorded.store(false, Ordering::Release);
            return Ok(());
        }
        let first = recent.front().copied().unwrap_or(now);
        drop(recent);
        let wait = window.saturating_sub(now.duration_since(first)).as_secs() + 1;
        let refusal = RequestRefusal::new(
            "limit.rate",
            format!("connections and requests may be made {} at most", limits.rate),
        )
        .by_rule("net.limits.rate")
        .with_hint(format!("wait {wait} s, and make fewer"));
        Err(self.limit_exceeded(refusal))
    }

    /// Counts bytes in transit; bytes beyond the limit are refused.
    pub(super) fn spend_bytes(&self, bytes: u64) -> Result<(), RequestRefusal> {
        let limits = self.limits();
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) > limits.bytes.get() {
            return Err(bytes_refusal(&limits));
        }
        Ok(())
    }

    /// Returns the refusal once the byte budget is exceeded.
    pub(super) fn bytes_exhausted(&self) -> Option<RequestRefusal> {
        let limits = self.limits();
        (self.bytes.load(Ordering::Acquire) > limits.bytes.get()).then(|| bytes_refusal(&limits))
    }

    fn limit_exceeded(&self, refusal: RequestRefusal) -> LimitExceeded {
        LimitExceeded {
            refusal,
            first: !self.is_refusal_recorded.swap(true, Ordering::AcqRel),
        }
    }
}

fn bytes_refusal(limits: &NetLimits) -> RequestRefusal {
    RequestRefusal::new(
        "limit.egress",
        format!("this session may move {} over the network, and did", limits.bytes),
    )
    .by_rule("net.limits.bytes")
    .with_hint("fetch less, or ask the operator for more")
}

#[cfg(test)]
mod tests;
