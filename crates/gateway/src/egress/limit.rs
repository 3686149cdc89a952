//! Network limits of a session: concurrent connections, rate, and bytes in all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use ringfence_policy::NetLimits;

use crate::refusal::Refusal;

/// The network counters of one session.
#[derive(Debug)]
pub(super) struct Limiter {
    limits: RwLock<NetLimits>,
    open: AtomicUsize,
    recent: Mutex<VecDeque<Instant>>,
    bytes: AtomicU64,
    /// Whether a refusal was recorded since the limiter last admitted something.
    told: AtomicBool,
}

/// The permit of one open connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Permit(Arc<Limiter>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A refusal at a limit, and whether it is the first since the limiter last admitted something: only the first is
/// recorded, so that refusals do not flood the journal.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) refusal: Refusal,
    pub(super) first: bool,
}

impl Limiter {
    pub(super) fn new(limits: NetLimits) -> Limiter {
        Limiter {
            limits: RwLock::new(limits),
            open: AtomicUsize::new(0),
            recent: Mutex::default(),
            bytes: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    fn limits(&self) -> NetLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the limits; counters keep their values.
    pub(super) fn change(&self, limits: NetLimits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Takes a permit for one more connection.
    pub(super) fn open(self: &Arc<Self>) -> Result<Permit, Over> {
        let most = usize::try_from(self.limits().connections).unwrap_or(usize::MAX);
        let taken = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < most).then_some(open + 1)
        });
        if taken.is_ok() {
            return Ok(Permit(Arc::clone(self)));
        }
        let refusal = Refusal::new("limit.connections", format!("{most} connections are open already"))
            .by("net.limits.connections")
            .hint("close connections, or use fewer at once");
        Err(self.over(refusal))
    }

    /// Counts one connection or request, if the rate and the byte budget allow it.
    pub(super) fn take(&self) -> Result<(), Over> {
        let limits = self.limits();
        if self.bytes.load(Ordering::Acquire) >= limits.bytes.get() {
            return Err(self.over(spent(&limits)));
        }
        let (now, window) = (Instant::now(), limits.rate.per().window());
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|at| now.duration_since(*at) >= window) {
            recent.pop_front();
        }
        if recent.len() < usize::try_from(limits.rate.count()).unwrap_or(usize::MAX) {
            recent.push_back(now);
            self.told.store(false, Ordering::Release);
            return Ok(());
        }
        let first = recent.front().copied().unwrap_or(now);
        drop(recent);
        let wait = window.saturating_sub(now.duration_since(first)).as_secs() + 1;
        let refusal = Refusal::new(
            "limit.rate",
            format!("connections and requests may be made {} at most", limits.rate),
        )
        .by("net.limits.rate")
        .hint(format!("wait {wait} s, and make fewer"));
        Err(self.over(refusal))
    }

    /// Counts bytes in transit; bytes beyond the limit are refused.
    pub(super) fn spend(&self, bytes: u64) -> Result<(), Refusal> {
        let limits = self.limits();
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) > limits.bytes.get() {
            return Err(spent(&limits));
        }
        Ok(())
    }

    /// Returns the refusal once the byte budget is exceeded.
    pub(super) fn spent(&self) -> Option<Refusal> {
        let limits = self.limits();
        (self.bytes.load(Ordering::Acquire) > limits.bytes.get()).then(|| spent(&limits))
    }

    fn over(&self, refusal: Refusal) -> Over {
        Over {
            refusal,
            first: !self.told.swap(true, Ordering::AcqRel),
        }
    }
}

fn spent(limits: &NetLimits) -> Refusal {
    Refusal::new(
        "limit.egress",
        format!("this session may move {} over the network, and did", limits.bytes),
    )
    .by("net.limits.bytes")
    .hint("fetch less, or ask the operator for more")
}

#[cfg(test)]
mod tests;
