//! The wall clock of an execution. It is paused while the execution is idle and waits for its caller to reply.

use std::time::{Duration, Instant};

use tokio::time::{Instant as Moment, Sleep, sleep_until};

/// An execution that uses more than one part in this many of its processor share is working, not waiting.
const IDLE_CPU_DIVISOR: u32 = 5;

/// Measures how long an execution ran, without the time in which it was idle and waited for a reply.
#[derive(Debug)]
pub(crate) struct WallClock {
    started: Instant,
    limit: Duration,
    /// The end of the sandbox's lifetime, which no waiting extends.
    lifetime_end: Instant,
    /// Thousandths of a processor that the execution may use, capped at one processor.
    share: u32,
    /// Waiting time that is excluded from the limit.
    excluded: Duration,
    /// When the current wait for a reply began; `None` while nothing is pending.
    waiting_since: Option<Instant>,
    /// Waiting time since the last update, followed by the time of that update.
    waited: Duration,
    looked: Instant,
    cpu: Duration,
}

impl WallClock {
    pub(crate) fn start(limit: Duration, lifetime: Duration, cpu_millis: u32) -> WallClock {
        let now = Instant::now();
        WallClock {
            started: now,
            limit,
            lifetime_end: now + lifetime,
            share: cpu_millis.clamp(1, 1000),
            excluded: Duration::ZERO,
            waiting_since: None,
            waited: Duration::ZERO,
            looked: now,
            cpu: Duration::ZERO,
        }
    }

    /// Records whether a reply is pending now.
    pub(crate) fn set_waiting(&mut self, waits: bool) {
        match (self.waiting_since, waits) {
            (None, true) => self.waiting_since = Some(Instant::now()),
            (Some(since), false) => {
                self.waited += since.elapsed();
                self.waiting_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Records the processor time used so far and decides whether the waiting time since the last update counts.
    pub(crate) fn update_cpu(&mut self, cpu: Duration) {
        let now = Instant::now();
        if let Some(since) = &mut self.waiting_since {
            self.waited += now.saturating_duration_since(*since);
            *since = now;
        }
        let used = cpu.saturating_sub(self.cpu);
        let passed = now.saturating_duration_since(self.looked);
        if used * IDLE_CPU_DIVISOR * 1000 / self.share <= passed {
            self.excluded += std::mem::take(&mut self.waited).saturating_sub(used);
        }
        self.waited = Duration::ZERO;
        self.looked = now;
        self.cpu = self.cpu.max(cpu);
    }

    /// When the limit is reached, as far as is known now.
    pub(crate) fn deadline(&self) -> Instant {
        let end = self.started + self.limit + self.excluded;
        end.min(self.lifetime_end)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline()
    }

    /// A sleep until the limit is reached.
    pub(crate) fn sleep(&self) -> Sleep {
        sleep_until(Moment::from_std(self.deadline()))
    }

    /// The time that counts against the limit.
    pub(crate) fn counted_time(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.excluded)
    }
}

#[cfg(test)]
mod tests;
