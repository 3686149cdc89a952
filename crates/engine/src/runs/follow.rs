//! Follows a run: its output as it comes, its status, and its end.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{ExecutionId, ExecutionStatus, Principal};
use tokio::time::Instant;

use crate::redact::run_output::OutputChunk;
use crate::runs::ClientRuns;
use crate::runs::output_buffer::{OutputBuffer, OutputCursor};
use crate::runs::registry::{OutputFrom, RunProgress, RunResult, TrackedRun, WaitError};
use crate::runs::resumption::AdoptedRun;

/// How often a follower looks for a suspended run that no process has.
const WAITING_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval between two outputs for a follower.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(50);

/// An event that a follower of a run gets.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The run printed new output.
    Output {
        /// New standard output, as a client may see it.
        stdout: String,
        /// New standard error, as a client may see it.
        stderr: String,
        /// The cursor to continue from.
        next: OutputCursor,
    },
    /// The status changed: the run is running, or waits for approvals.
    Status(ExecutionStatus),
    /// The run has ended; no event follows.
    Ended(RunResult),
}

/// A follower of one run.
pub struct RunFollower {
    runs: Arc<ClientRuns>,
    who: Principal,
    id: ExecutionId,
    /// The subscription to its output; none while this process does not have the run.
    subscription: Option<OutputSubscription>,
    cursor: OutputCursor,
    status: Option<ExecutionStatus>,
    /// The next output is not read before this time.
    paused_until: Option<Instant>,
    is_over: bool,
}

impl fmt::Debug for RunFollower {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Follower")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A subscription to a run's output: the output is kept until the last subscriber has read it.
struct OutputSubscription(Arc<TrackedRun>);

impl OutputSubscription {
    fn subscribe(run: Arc<TrackedRun>) -> OutputSubscription {
        lock_output(&run).add_follower();
        OutputSubscription(run)
    }
}

impl Drop for OutputSubscription {
    fn drop(&mut self) {
        lock_output(&self.0).remove_follower();
    }
}

fn lock_output(run: &TrackedRun) -> MutexGuard<'_, OutputBuffer> {
    run.output.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientRuns {
    /// Follows a run from a cursor in its output.
    pub async fn follow(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        from: OutputCursor,
    ) -> Result<RunFollower, WaitError> {
        let mut follower = RunFollower {
            runs: Arc::clone(self),
            who,
            id,
            subscription: None,
            cursor: from,
            status: None,
            paused_until: None,
            is_over: false,
        };
        follower.find_run().await?;
        Ok(follower)
    }
}

impl RunFollower {
    /// Finds the run, unless this process already follows it.
    async fn find_run(&mut self) -> Result<(), WaitError> {
        if self.subscription.is_some() {
            return Ok(());
        }
        let run = match self.runs.runs.find(self.who, self.id) {
            Some(run) => run,
            None => match self.runs.resumption.adopt_run(self.who, self.id).await? {
                AdoptedRun::Resumed(run) => run,
                AdoptedRun::AwaitsApproval(_) => return Ok(()),
            },
        };
        self.subscription = Some(OutputSubscription::subscribe(run));
        Ok(())
    }

    /// The next event; none after the end. Dropping the future before it completes loses nothing.
    pub async fn next_event(&mut self) -> Result<Option<RunEvent>, WaitError> {
        while !self.is_over {
            if let Some(rests) = self.paused_until {
                tokio::time::sleep_until(rests).await;
            }
            self.find_run().await?;
            let Some(OutputSubscription(run)) = &self.subscription else {
                if self.status.replace(ExecutionStatus::WaitingApproval) != Some(ExecutionStatus::WaitingApproval) {
                    return Ok(Some(RunEvent::Status(ExecutionStatus::WaitingApproval)));
                }
                tokio::time::sleep(WAITING_POLL_INTERVAL).await;
                continue;
            };
            // Subscribed before the run is read: what comes after wakes this.
            let mut stirs = run.changes.subscribe();
            let run = Arc::clone(run);
            let progress = run.wait(Duration::ZERO, false).await;
            let end = lock_output(&run).end_of();
            if self.cursor.is_before(end) {
                let OutputChunk { stdout, stderr, next } = self
                    .runs
                    .renderer
                    .redacted_output(&run, OutputFrom::After(self.cursor))
                    .await?;
                self.cursor = next;
                self.paused_until = Some(Instant::now() + OUTPUT_INTERVAL);
                return Ok(Some(RunEvent::Output { stdout, stderr, next }));
            }
            match progress {
                RunProgress::Ended(ending) => {
                    self.is_over = true;
                    self.subscription = None;
                    return Ok(Some(RunEvent::Ended(ending)));
                }
                RunProgress::Running(running) if self.status != Some(running.status) => {
                    self.status = Some(running.status);
                    return Ok(Some(RunEvent::Status(running.status)));
                }
                // The sender is the run, which is held here.
                RunProgress::Running(_) => drop(stirs.changed().await),
            }
        }
        Ok(None)
    }
}
