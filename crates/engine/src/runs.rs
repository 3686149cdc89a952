//! Executions that clients began: whoever asks can wait for one, hear it, end it, and read what it left, for a while.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Principal, SessionId, Status};
use ringfence_policy::RelPath;
use ringfence_sandbox::Stop;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::approvals::Inquiry;
use crate::error::RunError;
use crate::execution::{ErrorReport, Execution};
use crate::printed::{OutputCursor, Printed};
use crate::report;
use crate::shown::{Through, Whole};
use crate::words::{Live, Stream};

/// What is kept at most: runs, bytes of their results, bytes of their files.
const MOST: Load = Load {
    runs: 1024,
    memory: 256 << 20,
    disk: 2 << 30,
};
/// Runs of one principal that are under way, or wait for a place.
const MOST_AT_ONCE: usize = 256;

/// What runs weigh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    runs: u64,
    memory: u64,
    disk: u64,
}

impl Load {
    fn add(&mut self, other: Load) {
        self.runs += other.runs;
        self.memory += other.memory;
        self.disk += other.disk;
    }

    fn take(&mut self, other: Load) {
        self.runs = self.runs.saturating_sub(other.runs);
        self.memory = self.memory.saturating_sub(other.memory);
        self.disk = self.disk.saturating_sub(other.disk);
    }

    fn is_over(self, most: Load) -> bool {
        self.runs > most.runs || self.memory > most.memory || self.disk > most.disk
    }

    /// Somewhat less, so that making room is not done for every run.
    fn less(self) -> Load {
        let part = |bytes: u64| bytes / 4 * 3;
        Load {
            runs: part(self.runs),
            memory: part(self.memory),
            disk: part(self.disk),
        }
    }
}

/// How an execution ended: what came of it, or why nothing did.
pub type Ending = Result<Arc<Execution>, Arc<RunError>>;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The end.
    End,
    /// The end, or that nothing happens until people have answered.
    People,
}

/// Which part of what an execution printed is told while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFrom {
    /// All of it.
    Beginning,
    /// What nobody was told who asked in this way.
    LastAsked,
    /// What came after a place.
    After(OutputCursor),
}

/// Where an execution stands.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Under way.
    Running(Running),
    /// Over.
    Ended(Ending),
}

/// An execution that goes on.
#[derive(Debug, Clone, Serialize)]
pub struct Running {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Its session.
    pub session_id: SessionId,
    /// `running`, or `waiting_approval` while it does nothing but wait for people.
    pub status: Status,
    /// What it printed, or what is new of it.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// How long it goes on.
    pub elapsed_ms: u64,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Inquiry>,
    /// Why it could not go on if its process ended, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrepeatable: Option<String>,
    /// The execution of the same session that it waits for: one runs at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_behind: Option<ExecutionId>,
}

/// Why nothing can be said of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// There is none, or it is somebody else's.
    #[error("there is no execution `{0}`")]
    Unknown(ExecutionId),
    /// Another process of this machine runs it.
    #[error("execution `{0}` runs in another process")]
    Elsewhere(ExecutionId),
    /// It cannot be gone on with.
    #[error("execution `{id}` cannot go on: {why}")]
    Spoiled {
        /// Which.
        id: ExecutionId,
        /// Why.
        why: String,
    },
    /// It is over, and its result is no longer kept.
    #[error("the result of execution `{id}` is no longer kept; it ended as `{}`", status.name())]
    Forgotten {
        /// Which.
        id: ExecutionId,
        /// How it ended.
        status: Status,
    },
    /// It has personal data, and is held back.
    #[error("{}", .0.message)]
    HeldBack(ErrorReport),
    /// The journal could not be asked.
    #[error("{0}")]
    Unread(String),
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What it printed.
    Stdout,
    /// What it printed as errors.
    Stderr,
    /// Its value, as JSON.
    Value,
    /// A file that it made.
    File(RelPath),
}

/// One execution, from its beginning until it is forgotten.
pub(crate) struct Run {
    pub(crate) id: ExecutionId,
    pub(crate) session: SessionId,
    principal: Principal,
    begun: Instant,
    ended: OnceLock<Instant>,
    /// What it printed so far.
    pub(crate) printed: Mutex<Printed>,
    /// Whoever follows it hears that it printed, waits or goes on.
    pub(crate) stirs: watch::Sender<()>,
    switch: watch::Sender<bool>,
    ending: watch::Sender<Option<Ending>>,
    /// Where its files are, if it made any.
    pub(crate) files: PathBuf,
    /// Whether it does nothing but wait for people.
    waits: watch::Sender<bool>,
    /// Why it could not go on if its process ended, once it waited.
    unrepeatable: Mutex<Option<String>>,
    /// Its place among those of its principal, while it runs.
    place: Mutex<Option<OwnedSemaphorePermit>>,
    places: Arc<Semaphore>,
    nudge: Notify,
    /// What clients see it through.
    pub(crate) through: Through,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    pub(crate) fn cancel(&self) {
        self.switch.send_replace(true);
    }

    pub(crate) fn end(&self, ending: Ending) {
        // Who sees the end sees all that was printed before it.
        lock(&self.printed).end();
        lock(&self.place).take();
        self.ended.get_or_init(Instant::now);
        self.ending.send_replace(Some(ending));
        self.stirs.send_replace(());
    }

    /// It does nothing but wait for people, for so long that it has no sandbox: others have its place.
    pub(crate) fn rest(&self) {
        self.waits.send_replace(true);
        self.stirs.send_replace(());
        lock(&self.place).take();
    }

    /// It does nothing but wait for people, and keeps its sandbox and its place.
    pub(crate) fn stand(&self, why: Option<&str>) {
        *lock(&self.unrepeatable) = why.map(str::to_owned);
        self.waits.send_replace(true);
        self.stirs.send_replace(());
    }

    /// It does something else again.
    pub(crate) fn stir(&self) {
        if self.waits.send_if_modified(std::mem::take) {
            self.stirs.send_replace(());
        }
    }

    /// Says that it may go on.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Waits until somebody says so.
    pub(crate) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// It goes on, once there is a place for it.
    pub(crate) async fn rise(&self) {
        if lock(&self.place).is_some() {
            return;
        }
        // The semaphore is never closed.
        if let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
            *lock(&self.place) = Some(place);
        }
        self.waits.send_replace(false);
        self.stirs.send_replace(());
    }

    fn is_over(&self) -> bool {
        self.ending.borrow().is_some()
    }

    fn load(&self) -> Load {
        let policy = self.through.policy.memory_bytes() as u64;
        let mut load = Load {
            runs: 1,
            memory: policy,
            ..Load::default()
        };
        if let Some(Ok(execution)) = &*self.ending.borrow() {
            let value = execution.value.as_ref().map_or(0, |value| value.get().len());
            let whole = execution.whole.as_deref().map_or(0, Whole::weight);
            let lists = report::weight(execution);
            load.memory += (execution.stdout.len() + execution.stderr.len() + value + whole + lists) as u64;
            load.disk = execution.files.iter().map(|file| file.bytes).sum();
        }
        load
    }

    /// Waits until it is over, for `at_most` so long; where `soon`, also no longer than until it waits for people.
    pub(crate) async fn wait(&self, at_most: Duration, soon: bool) -> Progress {
        let (mut ending, mut waits) = (self.ending.subscribe(), self.waits.subscribe());
        // Out of time is an answer too.
        let _ = tokio::time::timeout(at_most, async {
            tokio::select! {
                _ = ending.wait_for(Option::is_some) => {}
                _ = waits.wait_for(|waits| *waits), if soon => {}
            }
        })
        .await;
        if let Some(ending) = &*self.ending.borrow() {
            return Progress::Ended(ending.clone());
        }
        Progress::Running(Running {
            execution_id: self.id,
            session_id: self.session,
            status: if *self.waits.borrow() {
                Status::WaitingApproval
            } else {
                Status::Running
            },
            stdout: String::new(),
            stderr: String::new(),
            elapsed_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            approvals: Vec::new(),
            unrepeatable: lock(&self.unrepeatable).clone(),
            waits_behind: None,
        })
    }

    pub(crate) async fn over(&self) {
        let mut ending = self.ending.subscribe();
        // Its sender is `self`, which is there.
        let _ = ending.wait_for(Option::is_some).await;
    }
}

/// Hears a run.
pub(crate) struct Ear(pub(crate) Arc<Run>);

impl Live for Ear {
    fn see(&mut self, stream: Stream, bytes: &[u8]) {
        lock(&self.0.printed).add(stream, bytes);
        self.0.stirs.send_replace(());
    }
}

/// Ends a run whose task is gone without a word, so that nobody waits for ever.
pub(crate) struct Ends(pub(crate) Arc<Run>);

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.0.is_over() {
            self.0.end(Err(Arc::new(RunError::Abandoned)));
        }
    }
}

/// A place among the runs of a principal.
#[derive(Debug)]
pub(crate) struct RunPlace {
    place: OwnedSemaphorePermit,
    of: Arc<Semaphore>,
}

/// The executions that clients began in this process.
#[derive(Default)]
pub(crate) struct Runs(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_id: HashMap<ExecutionId, Arc<Run>>,
    /// Oldest first.
    order: VecDeque<ExecutionId>,
    /// Of those that are over.
    load: Load,
    places: HashMap<Principal, Arc<Semaphore>>,
}

impl Runs {
    /// A place among the runs of `who`.
    pub(crate) fn place(&self, who: Principal) -> Result<RunPlace, RunError> {
        let of = self.places(who);
        let place = Arc::clone(&of).try_acquire_owned().map_err(|_| RunError::Crowded)?;
        Ok(RunPlace { place, of })
    }

    pub(crate) fn add(
        &self,
        id: ExecutionId,
        through: Through,
        (principal, RunPlace { place, of }): (Principal, RunPlace),
        files: PathBuf,
    ) -> (Arc<Run>, Stop) {
        self.insert((id, through, principal), files, of, Some(place))
    }

    /// One that goes on after it had no process: it gets a place when there is one.
    pub(crate) fn take_over(
        &self,
        id: ExecutionId,
        through: Through,
        principal: Principal,
        files: PathBuf,
    ) -> (Arc<Run>, Stop) {
        let places = self.places(principal);
        self.insert((id, through, principal), files, places, None)
    }

    fn places(&self, principal: Principal) -> Arc<Semaphore> {
        let mut kept = lock(&self.0);
        let places = kept.places.entry(principal);
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(MOST_AT_ONCE))))
    }

    fn insert(
        &self,
        (id, through, principal): (ExecutionId, Through, Principal),
        files: PathBuf,
        places: Arc<Semaphore>,
        place: Option<OwnedSemaphorePermit>,
    ) -> (Arc<Run>, Stop) {
        let (switch, stop) = Stop::new();
        let run = Arc::new(Run {
            id,
            session: through.session,
            through,
            principal,
            begun: Instant::now(),
            ended: OnceLock::new(),
            printed: Mutex::default(),
            stirs: watch::Sender::new(()),
            switch,
            ending: watch::Sender::new(None),
            files,
            waits: watch::Sender::new(false),
            unrepeatable: Mutex::default(),
            place: Mutex::new(place),
            places,
            nudge: Notify::new(),
        });
        let mut kept = lock(&self.0);
        kept.by_id.insert(id, Arc::clone(&run));
        kept.order.push_back(id);
        (run, stop)
    }

    /// Forgets one that ends elsewhere.
    pub(crate) fn let_go(&self, id: ExecutionId) {
        let mut kept = lock(&self.0);
        kept.by_id.remove(&id);
        kept.order.retain(|kept| *kept != id);
    }

    /// A run is over: where there is too much now, the oldest are forgotten.
    pub(crate) fn ended(&self, run: &Run) -> Vec<Arc<Run>> {
        let is_too_much = {
            let mut kept = lock(&self.0);
            kept.load.add(run.load());
            kept.load.is_over(MOST)
        };
        if is_too_much {
            self.forget_where(|_, load| load.is_over(MOST.less()))
        } else {
            Vec::new()
        }
    }

    pub(crate) fn find(&self, who: Principal, id: ExecutionId) -> Option<Arc<Run>> {
        lock(&self.0).by_id.get(&id).filter(|run| run.principal == who).cloned()
    }

    /// An execution that is seen through here.
    pub(crate) fn here(&self, id: ExecutionId) -> Option<Arc<Run>> {
        lock(&self.0).by_id.get(&id).filter(|run| !run.is_over()).cloned()
    }

    /// Everything of a session that goes on, or of all.
    pub(crate) fn under_way(&self, session: Option<SessionId>) -> Vec<Arc<Run>> {
        let kept = lock(&self.0);
        let wanted = |run: &&Arc<Run>| session.is_none_or(|session| run.session == session) && !run.is_over();
        kept.by_id.values().filter(wanted).cloned().collect()
    }

    /// Forgets what has been over for so long.
    pub(crate) fn forget(&self, older_than: Duration) -> Vec<Arc<Run>> {
        self.forget_where(|run, _| run.ended.get().is_some_and(|ended| ended.elapsed() >= older_than))
    }

    /// Forgets what is over, oldest first, where `old` says so of it and of all that is kept.
    fn forget_where(&self, old: impl Fn(&Run, Load) -> bool) -> Vec<Arc<Run>> {
        let mut kept = lock(&self.0);
        let mut forgotten = Vec::new();
        for id in std::mem::take(&mut kept.order) {
            let Some(run) = kept.by_id.get(&id) else { continue };
            if run.is_over() && old(run, kept.load) {
                let load = run.load();
                kept.load.take(load);
                forgotten.extend(kept.by_id.remove(&id));
            } else {
                kept.order.push_back(id);
            }
        }
        forgotten
    }
}

#[cfg(test)]
mod tests;
