//! The wall clock of an execution. It stands still while somebody outside is waited for and the execution itself does nothing.

use std::time::{Duration, Instant};

use tokio::time::{Instant as Moment, Sleep, sleep_until};

/// Above this share of what it may use, an execution is at work and not waiting: one part in so many.
const IDLE_PART: u32 = 5;

/// The clock.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    limit: Duration,
    /// The end of the sandbox's life, which nothing puts off.
    last: Instant,
    /// Processors it may use at once, at most one, in thousandths.
    share: u32,
    /// Time that did not count.
    stood: Duration,
    /// Since when somebody is waited for.
    since: Option<Instant>,
    /// Time of waiting since the last look, and the look itself.
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

    /// Says whether somebody is waited for now.
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

    /// Says how much processor time it has used by now.
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

    /// When its time is over, as far as is known now.
    pub(crate) fn end(&self) -> Instant {
        let end = self.started + self.limit + self.stood;
        end.min(self.last)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end()
    }

    /// A sleep until then.
    pub(crate) fn sleep(&self) -> Sleep {
        sleep_until(Moment::from_std(self.end()))
    }

    /// The time that counted.
    pub(crate) fn counted(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.stood)
    }
}

#[cfg(test)]
mod tests;
