//! The wall clock of an execution. It is paused while the execution is idle and waits for its caller to reply.

use std::time::{Duration, Instant};

use tokio::time::{Instant as Moment, Sleep, sleep_until};

/// An execution that uses more than one part in this many of its processor share is working, not waiting.
const IDLE_PART: u32 = 5;

/// Measures how long an execution ran, without the time in which it was idle and waited for a reply.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    limit: Duration,
    /// The end of the sandbox's lifetime, which no waiting extends.
    last: Instant,
    /// Thousandths of a processor that the execution may use, capped at one processor.
    share: u32,
    /// Waiting time that is excluded from the limit.
    stood: Duration,
    /// When the current wait for a reply began; `None` while nothing is pending.
    since: Option<Instant>,
    /// Waiting time since the last update, followed by the time of that update.
    waited: Duration,
    looked: Instant,
    cpu: Duration,
}

impl Clock {
    pub(crate) fn start(limit: Duration, lifetime: Duration, cpu_millis: u32) -> Clock {
        let now = Instant::now();
        Clock {
            started: now,
            limit,
            last: now + lifetime,
            share: cpu_millis.clamp(1, 1000),
            stood: Duration::ZERO,
            since: None,
            waited: Duration::ZERO,
            looked: now,
            cpu: Duration::ZERO,
        }
    }

    /// Records whether a reply is pending now.
    pub(crate) fn waits(&mut self, waits: bool) {
        match (self.since, waits) {
            (None, true) => self.since = Some(Instant::now()),
            (Some(since), false) => {
                self.waited += since.elapsed();
                self.since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Records the processor time used so far and decides whether the waiting time since the last update counts.
    pub(crate) fn look(&mut self, cpu: Duration) {
        let now = Instant::now();
        if let Some(since) = &mut self.since {
            self.waited += now.saturating_duration_since(*since);
            *since = now;
        }
        let used = cpu.saturating_sub(self.cpu);
        let passed = now.saturating_duration_since(self.looked);
        if used * IDLE_PART * 1000 / self.share <= passed {
            self.stood += std::mem::take(&mut self.waited).saturating_sub(used);
        }
        self.waited = Duration::ZERO;
        self.looked = now;
        self.cpu = self.cpu.max(cpu);
    }

    /// When the limit is reached, as far as is known now.
    pub(crate) fn end(&self) -> Instant {
        let end = self.started + self.limit + self.stood;
        end.min(self.last)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end()
    }

    /// A sleep until the limit is reached.
    pub(crate) fn sleep(&self) -> Sleep {
        sleep_until(Moment::from_std(self.end()))
    }

    /// The time that counts against the limit.
    pub(crate) fn counted(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.stood)
    }
}

#[cfg(test)]
mod tests;
