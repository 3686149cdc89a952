//! Decides whether an execution only waits for people, so that it can be suspended.
//!
//! The caller's handler reports that all open calls wait for a person; the host queries the child whether the program waits
//! for anything else. The child's report is untrusted: at worst a program is replayed without need.

use std::time::Duration;

use ringfence_wire::TICKS_PER_SECOND;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::door::Door;
use crate::exchange::Exchange;
use crate::execution::ticks_now;
use crate::pipe::{Pipe, PipeError, Waits};
use crate::verdict::Verdict;

/// A timer that is due within this time is waited for.
const SOON: Duration = Duration::from_secs(1);

/// When to query the child whether its program waits.
#[derive(Debug)]
pub(crate) struct Hold {
    held: Option<watch::Receiver<Option<usize>>>,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There is no reason to query.
    Never,
    /// Query as soon as the child has received everything else.
    Look,
    /// The query is sent and has no report yet.
    Asked,
    /// Query at this later time.
    At(Instant),
}

impl Hold {
    pub(crate) fn new(door: Option<&Door>) -> Hold {
        Hold {
            held: door.map(|door| door.held.clone()),
            next: Next::Never,
        }
    }

    /// Sends the query when it is due, and judges the report.
    pub(crate) fn turn(&mut self, pipe: &mut Pipe, exchange: &Exchange) -> Result<Option<Verdict>, PipeError> {
        let Some(count) = self.held() else {
            if pipe.take_waits().is_some() {
                self.next = Next::Never;
            }
            return Ok(None);
        };
        if let Some(waits) = pipe.take_waits() {
            let wait = soon(&waits);
            let same = waits.open as usize == count && pipe.unanswered() == count;
            let only = same && !waits.past && exchange.only_waits_for(count);
            if only && wait.is_none() && pipe.unrepeatable().is_none() {
                return Ok(Some(Verdict::Released { due: waits.due }));
            }
            self.next = Next::At(Instant::now() + wait.unwrap_or(SOON));
        }
        if matches!(self.next, Next::At(time) if time <= Instant::now()) {
            self.next = Next::Look;
        }
        // The query follows all replies, so that a program that can continue does.
        if self.next == Next::Look && pipe.unrepeatable().is_none() && pipe.is_flushed() {
            pipe.look()?;
            self.next = Next::Asked;
        }
        Ok(None)
    }

    /// How many calls wait for a person; `None` unless all open calls do.
    fn held(&mut self) -> Option<usize> {
        let held = self.held.as_mut()?;
        let Ok(changed) = held.has_changed() else {
            self.held = None;
            return None;
        };
        let count = *held.borrow_and_update();
        if changed && self.next != Next::Asked {
            self.next = Next::Look;
        }
        count
    }

    /// Waits until there may be a reason to query.
    pub(crate) async fn stirs(&mut self) {
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
            Next::At(time) => tokio::select! {
                () = changed => {}
                () = sleep_until(time) => {}
            },
            Next::Never | Next::Look | Next::Asked => changed.await,
        }
    }
}

/// The shortest delay before a program is queried again.
const LEAST: Duration = Duration::from_millis(20);

/// How long to wait for the program's next timer; `None` when it has none or it is due too late.
fn soon(waits: &Waits) -> Option<Duration> {
    let ticks = waits.due?.saturating_sub(ticks_now());
    let tick = SOON / u32::try_from(TICKS_PER_SECOND).unwrap_or(u32::MAX);
    let wait = tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    // A program that claims a past time must not cause constant queries.
    (wait < SOON).then_some((wait + tick).max(LEAST))
}
