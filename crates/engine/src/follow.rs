//! Follows a run: its output as it comes, its status, and its end.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{ExecutionId, Principal, Status};
use tokio::time::Instant;

use crate::engine::Engine;
use crate::printed::{OutputCursor, Printed};
use crate::resume::Taken;
use crate::runs::{Ending, OutputFrom, Progress, Run, WaitError};
use crate::told::Piece;

/// How often a follower looks for a suspended run that no process has.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest interval between two outputs for a follower.
const PACE: Duration = Duration::from_millis(50);

/// An event that a follower of a run gets.
#[derive(Debug, Clone)]
pub enum Followed {
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
    Status(Status),
    /// The run has ended; no event follows.
    Ended(Ending),
}

/// A follower of one run.
pub struct Follower {
    engine: Arc<Engine>,
    who: Principal,
    id: ExecutionId,
    /// The subscription to its output; none while this process does not have the run.
    read: Option<Reader>,
    cursor: OutputCursor,
    status: Option<Status>,
    /// The next output is not read before this time.
    rests: Option<Instant>,
    is_over: bool,
}

impl fmt::Debug for Follower {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Follower")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A subscription to a run's output: the output is kept until the last subscriber has read it.
struct Reader(Arc<Run>);

impl Reader {
    fn new(run: Arc<Run>) -> Reader {
        printed(&run).follow();
        Reader(run)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        printed(&self.0).leave();
    }
}

fn printed(run: &Run) -> MutexGuard<'_, Printed> {
    run.printed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Follows a run from a cursor in its output.
    pub async fn follow(
        self: &Arc<Self>,
        who: Principal,
        id: ExecutionId,
        from: OutputCursor,
    ) -> Result<Follower, WaitError> {
        let mut follower = Follower {
            engine: Arc::clone(self),
            who,
            id,
            read: None,
            cursor: from,
            status: None,
            rests: None,
            is_over: false,
        };
        follower.find().await?;
        Ok(follower)
    }
}

impl Follower {
    /// Finds the run, unless this process already follows it.
    async fn find(&mut self) -> Result<(), WaitError> {
        if self.read.is_some() {
            return Ok(());
        }
        let run = match self.engine.runs.find(self.who, self.id) {
            Some(run) => run,
            None => match self.engine.take_up(self.who, self.id).await? {
                Taken::Up(run) => run,
                Taken::Waits(_) => return Ok(()),
            },
        };
        self.read = Some(Reader::new(run));
        Ok(())
    }

    /// The next event; none after the end. Dropping the future before it completes loses nothing.
    pub async fn next(&mut self) -> Result<Option<Followed>, WaitError> {
        while !self.is_over {
            if let Some(rests) = self.rests {
                tokio::time::sleep_until(rests).await;
            }
            self.find().await?;
            let Some(Reader(run)) = &self.read else {
                if self.status.replace(Status::WaitingApproval) != Some(Status::WaitingApproval) {
                    return Ok(Some(Followed::Status(Status::WaitingApproval)));
                }
                tokio::time::sleep(LOOK).await;
                continue;
            };
            // Subscribed before the run is read: what comes after wakes this.
            let mut stirs = run.stirs.subscribe();
            let run = Arc::clone(run);
            let progress = run.wait(Duration::ZERO, false).await;
            let end = printed(&run).end_of();
            if self.cursor.is_before(end) {
                let Piece { stdout, stderr, next } = self.engine.told(&run, OutputFrom::After(self.cursor)).await?;
                self.cursor = next;
                self.rests = Some(Instant::now() + PACE);
                return Ok(Some(Followed::Output { stdout, stderr, next }));
            }
            match progress {
                Progress::Ended(ending) => {
                    self.is_over = true;
                    self.read = None;
                    return Ok(Some(Followed::Ended(ending)));
                }
                Progress::Running(running) if self.status != Some(running.status) => {
                    self.status = Some(running.status);
                    return Ok(Some(Followed::Status(running.status)));
                }
                // The sender is the run, which is held here.
                Progress::Running(_) => drop(stirs.changed().await),
            }
        }
        Ok(None)
    }
}
