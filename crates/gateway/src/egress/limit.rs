//! How much a session may do on the network: connections at once, how often, how many bytes in all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_policy::Policy;

use crate::refusal::Refusal;

const MINUTE: Duration = Duration::from_mins(1);

/// What one session may use of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of programs at once.
    pub connections: usize,
    /// Connections and requests in any minute.
    pub per_minute: usize,
    /// Bytes out and in together, over the whole session.
    pub bytes: u64,
}

/// What holds where nothing was written.
const USUAL: Limits = Limits {
    connections: 256,
    per_minute: 6000,
    bytes: 1 << 30,
};

impl Limits {
    /// The limits of a policy.
    pub(super) fn of(_policy: &Policy) -> Limits {
        USUAL
    }
}

/// The counts of one session.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    open: AtomicUsize,
    recent: Mutex<VecDeque<Instant>>,
    bytes: AtomicU64,
    /// A refusal for the rate was written in this minute already.
    told: AtomicBool,
}

/// One connection's place among those that may be open; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Limiter>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A refusal at a limit, and whether it is the first of its kind in this minute: only that one is written down, or the
/// journal would be what overflows.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) refusal: Refusal,
    pub(super) first: bool,
}

impl Limiter {
    /// A place for one more connection.
    pub(super) fn open(self: &Arc<Self>, limits: &Limits) -> Result<Permit, Over> {
        let most = limits.connections;
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

    /// Counts one connection or request, if there is room for it in this minute and bytes are left.
    pub(super) fn take(&self, limits: &Limits) -> Result<(), Over> {
        if self.bytes.load(Ordering::Acquire) >= limits.bytes {
            return Err(self.over(spent(limits)));
        }
        let now = Instant::now();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            recent.pop_front();
        }
        if recent.len() < limits.per_minute {
            recent.push_back(now);
            self.told.store(false, Ordering::Release);
            return Ok(());
        }
        let wait = recent
            .front()
            .map_or(MINUTE, |first| MINUTE.saturating_sub(now.duration_since(*first)));
        drop(recent);
        let refusal = Refusal::new(
            "limit.rate",
            format!(
                "{} connections and requests were made in this minute",
                limits.per_minute
            ),
        )
        .by("net.limits.rate")
        .hint(format!("wait {:.0} s, and make fewer", wait.as_secs_f64().ceil()));
        Err(self.over(refusal))
    }

    /// Counts bytes that cross; those at the limit are not let through.
    pub(super) fn spend(&self, bytes: u64, limits: &Limits) -> Result<(), Refusal> {
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) > limits.bytes {
            return Err(spent(limits));
        }
        Ok(())
    }

    fn over(&self, refusal: Refusal) -> Over {
        Over {
            refusal,
            first: !self.told.swap(true, Ordering::AcqRel),
        }
    }
}

fn spent(limits: &Limits) -> Refusal {
    Refusal::new(
        "limit.egress",
        format!("this session may move {} bytes over the network, and did", limits.bytes),
    )
    .by("net.limits.bytes")
    .hint("fetch less, or ask the operator for more")
}

#[cfg(test)]
mod tests;
