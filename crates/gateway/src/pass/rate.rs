//! Rate limits: each rate is a bucket of calls that refills evenly over its window. A call counts under all of its
//! rates or, if one is exhausted, under none: repeated calls against one exhausted rate do not drain the others.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use ringfence_policy::{Rate, RuleRef};

/// A rate, and the calls that it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MeteredRate {
    pub(super) rule: RuleRef,
    /// The item that the rule counts separately, such as a tool; empty if it counts all together.
    pub(super) key: String,
    pub(super) rate: Rate,
}

/// A rate that is exhausted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RateExhausted {
    pub(super) rule: RuleRef,
    pub(super) rate: Rate,
    /// How long until it has capacity again.
    pub(super) wait: Duration,
}

type RateBucket = RateLimiter<NotKeyed, BucketLevel, BucketClock, NoOpMiddleware<Nanos>>;

/// How far back a call still counts: no window is longer.
const MAX_WINDOW: Duration = Duration::from_hours(1);

/// The buckets of all rates.
#[derive(Debug)]
pub(super) struct RateBuckets {
    /// The time origin: the clock of the buckets reads [`MAX_WINDOW`] at this instant.
    began: Instant,
    hand: BucketClock,
    buckets: HashMap<(String, String, Rate), RateBucket>,
    trying: Arc<AtomicBool>,
}

impl Default for RateBuckets {
    fn default() -> RateBuckets {
        RateBuckets {
            began: Instant::now(),
            hand: BucketClock::default(),
            buckets: HashMap::new(),
            trying: Arc::default(),
        }
    }
}

impl RateBuckets {
    /// Checks that each rate has capacity for one more call; counts nothing.
    pub(super) fn check_capacity(&mut self, metered: &[MeteredRate], now: Instant) -> Result<(), RateExhausted> {
        self.try_each(metered, now, true)
    }

    /// Counts a call under each rate. Check the capacity first.
    pub(super) fn count(&mut self, metered: &[MeteredRate], now: Instant) -> Result<(), RateExhausted> {
        self.try_each(metered, now, false)
    }

    /// Counts a call that was made so long before these buckets existed; calls must be added oldest first. It has
    /// happened, so it counts as far as there is capacity.
    pub(super) fn remember(&mut self, metered: &[MeteredRate], ago: Duration) {
        if let Some(at) = MAX_WINDOW.checked_sub(ago) {
            for one in metered {
                // An exhausted bucket stays exhausted.
                let _ = self.try_each_at(std::slice::from_ref(one), at, false);
            }
        }
    }

    fn try_each(&mut self, metered: &[MeteredRate], now: Instant, trying: bool) -> Result<(), RateExhausted> {
        self.try_each_at(metered, self.time_of(now), trying)
    }

    fn time_of(&self, now: Instant) -> Duration {
        MAX_WINDOW + now.saturating_duration_since(self.began)
    }

    fn try_each_at(&mut self, metered: &[MeteredRate], at: Duration, trying: bool) -> Result<(), RateExhausted> {
        self.hand.set(at);
        self.trying.store(trying, Ordering::Relaxed);
        for MeteredRate { rule, key: of, rate } in metered {
            let (hand, trying) = (&self.hand, &self.trying);
            let key = (rule.as_str().to_owned(), of.clone(), *rate);
            let bucket = self.buckets.entry(key).or_insert_with(|| {
                let level = BucketLevel {
                    level: Mutex::default(),
                    trying: Arc::clone(trying),
                };
                RateLimiter::new(quota(*rate), level, hand.clone())
            });
            bucket.check().map_err(|full| RateExhausted {
                rule: rule.clone(),
                rate: *rate,
                wait: full.wait_time_from(bucket.clock().now()),
            })?;
        }
        Ok(())
    }

    /// Whether all buckets are full again, as if never used.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let last = Duration::from_nanos(self.hand.now().as_u64());
        let longest = self.buckets.keys().map(|(_, _, rate)| rate.window().duration()).max();
        self.time_of(now).saturating_sub(last) > longest.unwrap_or_default()
    }
}

fn quota(rate: Rate) -> Quota {
    let count = NonZeroU32::new(rate.count()).unwrap_or(NonZeroU32::MIN);
    let one = (rate.window().duration() / count.get()).max(Duration::from_nanos(1));
    // A period of at least one nanosecond is always valid.
    Quota::with_period(one).map_or(Quota::per_hour(NonZeroU32::MIN), |quota| quota.allow_burst(count))
}

/// The clock that all buckets of a set share.
#[derive(Debug, Clone, Default)]
struct BucketClock(Arc<AtomicU64>);

impl BucketClock {
    fn set(&self, since: Duration) {
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::Relaxed);
    }
}

impl Clock for BucketClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.load(Ordering::Relaxed))
    }
}

/// The level of a bucket; a trial does not change it.
#[derive(Debug)]
struct BucketLevel {
    level: Mutex<Option<Nanos>>,
    trying: Arc<AtomicBool>,
}

impl StateStore for BucketLevel {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _key: &NotKeyed, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, new) = measure(*level)?;
        if !self.trying.load(Ordering::Relaxed) {
            *level = Some(new);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests;
