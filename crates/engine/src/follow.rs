//! Following a run: what it prints while it prints it, where it stands, and how it ends.

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

/// How often it is looked again for a run that waits for people and that no process has.
const LOOK: Duration = Duration::from_secs(1);
/// How often a follower hears what is printed at most.
const PACE: Duration = Duration::from_millis(50);

/// What somebody hears who follows a run.
#[derive(Debug, Clone)]
pub enum Followed {
    /// It printed this.
    Output {
        /// As a client may see it.
        stdout: String,
        /// What it printed as errors.
        stderr: String,
        /// From where to go on.
        next: OutputCursor,
    },
    /// It stands otherwise than before: it runs, or waits for people.
    Status(Status),
    /// It is over; nothing follows.
    Ended(Ending),
}

/// One who follows a run.
pub struct Follower {
    engine: Arc<Engine>,
    who: Principal,
    id: ExecutionId,
    /// The run, as long as this process has it.
    read: Option<Reader>,
    cursor: OutputCursor,
    status: Option<Status>,
    /// Not before then is it looked again at what it printed.
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

/// One who reads what a run prints: it is kept until the last of them has read it.
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
    /// Follows a run from a place in what it printed.
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
    /// Looks for the run where it is not here yet.
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

    /// What happens next; nothing once the end was heard. Nothing is lost where this is not waited for to its end.
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
            // Whoever looks first and then hears nothing is woken by what comes after.
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
                // Its sender is the run, which is there.
                Progress::Running(_) => drop(stirs.changed().await),
            }
        }
        Ok(None)
    }
}
