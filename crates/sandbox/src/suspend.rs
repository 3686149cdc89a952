//! Decides whether an execution only waits for people, so that it can be suspended.
//!
//! The caller's handler reports that all open calls wait for a person; the host queries the child whether the program waits
//! for anything else. The child's report is untrusted: at worst a program is replayed without need.

use std::time::Duration;

use ringfence_wire::TICKS_PER_SECOND;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::call_exchange::CallExchange;
use crate::call_port::CallPort;
use crate::execution::ticks_now;
use crate::pipe::{HostPipe, PipeError, WaitReport};
use crate::verdict::Verdict;

/// A timer that is due within this time is waited for.
const MAX_TIMER_WAIT: Duration = Duration::from_secs(1);

/// When to query the child whether its program waits.
#[derive(Debug)]
pub(crate) struct SuspendCheck {
    held: Option<watch::Receiver<Option<usize>>>,
    next: SuspendStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SuspendStep {
    /// There is no reason to query.
    Never,
    /// Query as soon as the child has received everything else.
    Query,
    /// The query is sent and has no report yet.
    Queried,
    /// Query at this later time.
    QueryAt(Instant),
}

impl SuspendCheck {
    pub(crate) fn new(door: Option<&CallPort>) -> SuspendCheck {
        SuspendCheck {
            held: door.map(|door| door.held.clone()),
            next: SuspendStep::Never,
        }
    }

    /// Sends the query when it is due, and judges the report.
    pub(crate) fn poll(&mut self, pipe: &mut HostPipe, exchange: &CallExchange) -> Result<Option<Verdict>, PipeError> {
        let Some(count) = self.held_calls() else {
            if pipe.take_wait_report().is_some() {
                self.next = SuspendStep::Never;
            }
            return Ok(None);
        };
        if let Some(waits) = pipe.take_wait_report() {
            let wait = timer_wait(&waits);
            let same = waits.open as usize == count && pipe.unanswered() == count;
            let only = same && !waits.is_stale && exchange.only_waits_for(count);
            if only && wait.is_none() && pipe.unrepeatable().is_none() {
                return Ok(Some(Verdict::Released { due: waits.due }));
            }
            self.next = SuspendStep::QueryAt(Instant::now() + wait.unwrap_or(MAX_TIMER_WAIT));
        }
        if matches!(self.next, SuspendStep::QueryAt(time) if time <= Instant::now()) {
            self.next = SuspendStep::Query;
        }
        // The query follows all replies, so that a program that can continue does.
        if self.next == SuspendStep::Query && pipe.unrepeatable().is_none() && pipe.is_flushed() {
            pipe.query_waits()?;
            self.next = SuspendStep::Queried;
        }
        Ok(None)
    }

    /// How many calls wait for a person; `None` unless all open calls do.
    fn held_calls(&mut self) -> Option<usize> {
        let held = self.held.as_mut()?;
        let Ok(changed) = held.has_changed() else {
            self.held = None;
            return None;
        };
        let count = *held.borrow_and_update();
        if changed && self.next != SuspendStep::Queried {
            self.next = SuspendStep::Query;
        }
        count
    }

    /// Waits until there may be a reason to query.
    pub(crate) async fn wait_for_change(&mut self) {
        let Some(held) = &mut self.held else {
            return std::future::pending().await;
        };
        let changed = async {
            if held.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            held.mark_changed();
        };
        match self.next {
            SuspendStep::QueryAt(time) => tokio::select! {
                () = changed => {}
                () = sleep_until(time) => {}
            },
            SuspendStep::Never | SuspendStep::Query | SuspendStep::Queried => changed.await,
        }
    }
}

/// The shortest delay before a program is queried again.
const MIN_QUERY_DELAY: Duration = Duration::from_millis(20);

/// How long to wait for the program's next timer; `None` when it has none or it is due too late.
fn timer_wait(waits: &WaitReport) -> Option<Duration> {
    let ticks = waits.due?.saturating_sub(ticks_now());
    let tick = MAX_TIMER_WAIT / u32::try_from(TICKS_PER_SECOND).unwrap_or(u32::MAX);
    let wait = tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    // A program that claims a past time must not cause constant queries.
    (wait < MAX_TIMER_WAIT).then_some((wait + tick).max(MIN_QUERY_DELAY))
}
