//! Staying awake between calls that follow each other at once. Where an idle processor has to be woken, that is most of what a call
//! costs; whoever is awake needs no waking. One execution of a process at a time, a moment long, and only as long as it pays.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long nothing may come before whoever waits goes to sleep.
const MOMENT: Duration = Duration::from_micros(200);
/// So many times in a row something came in time, a call and its answer: those of a tool that takes longer never make it.
const PAYS: u32 = 2;

/// Whether somebody is awake.
static AWAKE: AtomicBool = AtomicBool::new(false);

/// How what is waited for came of late.
#[derive(Debug)]
pub(super) struct Brisk {
    since: Instant,
    in_time: u32,
    /// With one processor, whoever is awake holds up all that is waited for.
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

    /// Something came.
    pub(super) fn stir(&mut self) {
        let now = Instant::now();
        let is_in_time = now.duration_since(self.since) <= MOMENT;
        self.in_time = if is_in_time { self.in_time.saturating_add(1) } else { 0 };
        self.since = now;
    }

    /// Stays awake for a moment where that pays; then, or else, sleeps for ever.
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

/// The one who is awake.
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
