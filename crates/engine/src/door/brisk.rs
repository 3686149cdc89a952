//! Spinning between calls that follow each other closely. Waking an idle processor is most of the cost of a call; a spinning thread needs
//! no wake-up. One execution of a process spins at a time, for 200 microseconds at most, and only after a streak of quick arrivals.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a waiting thread spins without an arrival before it sleeps.
const MOMENT: Duration = Duration::from_micros(200);
/// Arrivals within the interval, in a row, before spinning pays: a call and its answer. Slow tools never reach it.
const PAYS: u32 = 2;

/// Whether an execution of this process spins.
static AWAKE: AtomicBool = AtomicBool::new(false);

/// How quickly calls and answers arrived of late.
#[derive(Debug)]
pub(super) struct Brisk {
    since: Instant,
    in_time: u32,
    /// With one processor, a spinning thread delays what it waits for.
    possible: bool,
}

impl Brisk {
    pub(super) fn new() -> Brisk {
        Brisk {
            since: Instant::now(),
            in_time: 0,
            possible: std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
        }
    }

    /// Records the arrival of a call or an answer.
    pub(super) fn stir(&mut self) {
        let now = Instant::now();
        let is_in_time = now.duration_since(self.since) <= MOMENT;
        self.in_time = if is_in_time { self.in_time.saturating_add(1) } else { 0 };
        self.since = now;
    }

    /// Spins for the interval where that pays; then, or else, sleeps forever.
    pub(super) async fn wait(&self) -> Infallible {
        if self.possible && self.in_time >= PAYS && self.since.elapsed() <= MOMENT {
            let awake = Awake::alone();
            while awake.is_some() && self.since.elapsed() <= MOMENT {
                tokio::task::yield_now().await;
            }
        }
        std::future::pending().await
    }
}

/// The permit to spin; released when it is dropped.
struct Awake;

impl Awake {
    fn alone() -> Option<Awake> {
        (!AWAKE.swap(true, Ordering::Relaxed)).then_some(Awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        AWAKE.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
