//! Spinning between calls that follow each other closely. Waking an idle processor is most of the cost of a call; a spinning thread needs
//! no wake-up. One execution of a process spins at a time, for 200 microseconds at most, and only after a streak of quick arrivals.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a waiting thread spins without an arrival before it sleeps.
const SPIN_INTERVAL: Duration = Duration::from_micros(200);
/// Arrivals within the interval, in a row, before spinning pays: a call and its answer. Slow tools never reach it.
const MIN_SPIN_STREAK: u32 = 2;

/// Whether an execution of this process spins.
static SPINNING: AtomicBool = AtomicBool::new(false);

/// How quickly calls and answers arrived of late.
#[derive(Debug)]
pub struct AdaptiveSpin {
    last_arrival: Instant,
    streak: u32,
    /// With one processor, a spinning thread delays what it waits for.
    is_multiprocessor: bool,
}

impl AdaptiveSpin {
    /// Nothing has arrived yet.
    #[expect(clippy::new_without_default, reason = "it starts its clock")]
    pub fn new() -> AdaptiveSpin {
        AdaptiveSpin {
            last_arrival: Instant::now(),
            streak: 0,
            is_multiprocessor: std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
        }
    }

    /// Records the arrival of a call or an answer.
    pub fn record_arrival(&mut self) {
        let now = Instant::now();
        let is_in_time = now.duration_since(self.last_arrival) <= SPIN_INTERVAL;
        self.streak = if is_in_time { self.streak.saturating_add(1) } else { 0 };
        self.last_arrival = now;
    }

    /// Spins for the interval where that pays; then, or else, sleeps forever.
    pub async fn spin_or_sleep(&self) -> Infallible {
        if self.is_multiprocessor && self.streak >= MIN_SPIN_STREAK && self.last_arrival.elapsed() <= SPIN_INTERVAL {
            let awake = SpinPermit::try_acquire();
            while awake.is_some() && self.last_arrival.elapsed() <= SPIN_INTERVAL {
                tokio::task::yield_now().await;
            }
        }
        std::future::pending().await
    }
}

/// The permit to spin; released when it is dropped.
struct SpinPermit;

impl SpinPermit {
    fn try_acquire() -> Option<SpinPermit> {
        (!SPINNING.swap(true, Ordering::Relaxed)).then_some(SpinPermit)
    }
}

impl Drop for SpinPermit {
    fn drop(&mut self) {
        SPINNING.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
