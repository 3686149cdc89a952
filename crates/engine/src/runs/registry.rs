//! The run registry: executions that clients began. Clients can wait for one, follow it, cancel it, and read what it left, for a while.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, ExecutionStatus, Principal, SessionId};
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::Stop;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::approvals::PendingApproval;
use crate::error::OperationError;
use crate::output::{OutputObserver, ProgramStream};
use crate::redact::{FullOutput, ReadContext};
use crate::report::{self, ErrorReport, ExecutionReport};
use crate::runs::output_buffer::{OutputBuffer, OutputCursor};
use crate::runs::refused::RefusedRuns;

/// The most that is kept of finished runs: their number, bytes of their results, bytes of their files.
const MAX_KEPT_LOAD: RunLoad = RunLoad {
    runs: 1024,
    memory: 256 << 20,
    disk: 2 << 30,
};
/// Runs of one principal that are active or wait for a slot.
const MAX_ACTIVE_RUNS: usize = 256;

/// The number of runs, and what they take of memory and disk in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RunLoad {
    runs: u64,
    memory: u64,
    disk: u64,
}

impl RunLoad {
    fn add(&mut self, other: RunLoad) {
        self.runs += other.runs;
        self.memory += other.memory;
        self.disk += other.disk;
    }

    fn subtract(&mut self, other: RunLoad) {
        self.runs = self.runs.saturating_sub(other.runs);
        self.memory = self.memory.saturating_sub(other.memory);
        self.disk = self.disk.saturating_sub(other.disk);
    }

    fn is_over(self, most: RunLoad) -> bool {
        self.runs > most.runs || self.memory > most.memory || self.disk > most.disk
    }

    /// A lower limit to free down to, so that runs are not dropped one at a time.
    fn with_headroom(self) -> RunLoad {
        let part = |bytes: u64| bytes / 4 * 3;
        RunLoad {
            runs: part(self.runs),
            memory: part(self.memory),
            disk: part(self.disk),
        }
    }
}

/// The report of a run, or why it has none.
pub type RunResult = Result<Arc<ExecutionReport>, Arc<OperationError>>;

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCondition {
    /// The run has ended.
    Finished,
    /// The run has ended, or does nothing until people have answered.
    FinishedOrBlocked,
}

/// Which part of a running execution's output a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFrom {
    /// All output so far.
    Beginning,
    /// The output since the last read of this kind.
    LastRead,
    /// The output after a cursor.
    After(OutputCursor),
}

/// The state of a run.
#[derive(Debug, Clone)]
pub enum RunProgress {
    /// The execution has not ended.
    Running(RunningExecution),
    /// The execution has ended, with a report or an error.
    Ended(RunResult),
}

/// An execution that has not ended.
#[derive(Debug, Clone, Serialize)]
pub struct RunningExecution {
    /// The id of the execution.
    pub execution_id: ExecutionId,
    /// The session that the execution runs in.
    pub session_id: SessionId,
    /// `running`, or `waiting_approval` while it waits for approvals only.
    pub status: ExecutionStatus,
    /// Its standard output, or the new part of it.
    pub stdout: String,
    /// Its standard error, or the new part of it.
    pub stderr: String,
    /// Milliseconds since the execution began.
    pub elapsed_ms: u64,
    /// The approval requests that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<PendingApproval>,
    /// Why it could not resume if its process ended; none where it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrepeatable: Option<String>,
    /// The execution of the same session that it waits for: one runs at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_behind: Option<ExecutionId>,
}

/// Why nothing is known of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// There is no such execution, or it belongs to another principal.
    #[error("there is no execution `{0}`")]
    Unknown(ExecutionId),
    /// Another process of this machine runs it.
    #[error("execution `{0}` runs in another process")]
    Elsewhere(ExecutionId),
    /// The execution cannot resume.
    #[error("execution `{id}` cannot go on: {why}")]
    NotResumable {
        /// The execution that was named.
        id: ExecutionId,
        /// The reason that its recording gives.
        why: String,
    },
    /// The execution has ended, and its result is no longer kept.
    #[error("the result of execution `{id}` is no longer kept; it ended as `{}`", status.name())]
    Forgotten {
        /// The execution that was named.
        id: ExecutionId,
        /// How the execution ended.
        status: ExecutionStatus,
    },
    /// The result contains personal data, and is withheld.
    #[error("{}", .0.message)]
    Withheld(ErrorReport),
    /// The journal could not be read.
    #[error("{0}")]
    Journal(String),
}

/// A part of a result, which clients read by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunArtifact {
    /// The standard output of the program.
    Stdout,
    /// The standard error of the program.
    Stderr,
    /// The value of the program, as JSON.
    Value,
    /// A file that the program left, by its path.
    File(RelPath),
}

/// An execution that clients can see, from its beginning until it is dropped.
pub(crate) struct TrackedRun {
    pub(crate) id: ExecutionId,
    pub(crate) session: SessionId,
    principal: Principal,
    begun: Instant,
    ended: OnceLock<Instant>,
    /// The output so far.
    pub(crate) output: Mutex<OutputBuffer>,
    /// Tells followers that it printed, waits or resumes.
    pub(crate) changes: watch::Sender<()>,
    cancel_switch: watch::Sender<bool>,
    result: watch::Sender<Option<RunResult>>,
    /// The folder of its files, if it made any.
    pub(crate) files: PathBuf,
    /// Whether it waits for approvals only.
    waiting: watch::Sender<bool>,
    /// Why it could not resume if its process ended; set once it waits.
    unrepeatable: Mutex<Option<String>>,
    /// Its slot among the runs of its principal, while it is active.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    slots: Arc<Semaphore>,
    resume_signal: Notify,
    /// What clients read it through.
    read_context: Mutex<Arc<ReadContext>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrackedRun {
    pub(crate) fn cancel(&self) {
        self.cancel_switch.send_replace(true);
    }

    pub(crate) fn finish(&self, ending: RunResult) {
        // A client that sees the end also sees all output before it.
        lock(&self.output).end();
        lock(&self.slot).take();
        self.ended.get_or_init(Instant::now);
        self.result.send_replace(Some(ending));
        self.changes.send_replace(());
    }

    /// Marks the run as suspended: it waits for approvals only, without a sandbox, and frees its slot.
    pub(crate) fn mark_suspended(&self) {
        self.waiting.send_replace(true);
        self.changes.send_replace(());
        lock(&self.slot).take();
    }

    /// Marks the run as waiting for approvals only; it keeps its sandbox and its slot.
    pub(crate) fn mark_waiting(&self, why: Option<&str>) {
        *lock(&self.unrepeatable) = why.map(str::to_owned);
        self.waiting.send_replace(true);
        self.changes.send_replace(());
    }

    /// Marks the run as active again.
    pub(crate) fn mark_active(&self) {
        if self.waiting.send_if_modified(std::mem::take) {
            self.changes.send_replace(());
        }
    }

    /// Asks a suspended run to look whether it can resume.
    pub(crate) fn request_resume(&self) {
        self.resume_signal.notify_one();
    }

    /// Waits for such a request.
    pub(crate) async fn resume_requested(&self) {
        self.resume_signal.notified().await;
    }

    /// Resumes once there is a slot for the run.
    pub(crate) async fn acquire_slot(&self) {
        if lock(&self.slot).is_some() {
            return;
        }
        // The semaphore is never closed.
        if let Ok(place) = Arc::clone(&self.slots).acquire_owned().await {
            *lock(&self.slot) = Some(place);
        }
        self.waiting.send_replace(false);
        self.changes.send_replace(());
    }

    pub(crate) fn principal(&self) -> Principal {
        self.principal
    }

    /// The context that clients read it through.
    pub(crate) fn read_context(&self) -> Arc<ReadContext> {
        Arc::clone(&lock(&self.read_context))
    }

    /// Drops the policy and the draft of a refused run, before it ends: nothing is read through them.
    pub(crate) fn forget_request(&self, usual: &Arc<Policy>) {
        let mut through = lock(&self.read_context);
        *through = Arc::new(ReadContext {
            redactor: Arc::clone(&through.redactor),
            policy: Arc::clone(usual),
            rules: Weak::new(),
            draft: None,
            session: through.session,
        });
    }

    fn is_over(&self) -> bool {
        self.result.borrow().is_some()
    }

    fn load(&self) -> RunLoad {
        let mut load = RunLoad {
            runs: 1,
            memory: self.read_context().memory_bytes() as u64,
            ..RunLoad::default()
        };
        if let Some(Ok(execution)) = &*self.result.borrow() {
            let value = execution.value.as_ref().map_or(0, |value| value.get().len());
            let whole = execution.whole.as_deref().map_or(0, FullOutput::byte_size);
            let lists = report::memory_bytes(execution);
            load.memory += (execution.stdout.len() + execution.stderr.len() + value + whole + lists) as u64;
            load.disk = execution.files.iter().map(|file| file.bytes).sum();
        }
        load
    }

    /// Waits until the run has ended, for `at_most` this long; with `soon`, only until it waits for approvals.
    pub(crate) async fn wait(&self, at_most: Duration, soon: bool) -> RunProgress {
        let (mut ending, mut waits) = (self.result.subscribe(), self.waiting.subscribe());
        // A timeout is an answer too.
        let _ = tokio::time::timeout(at_most, async {
            tokio::select! {
                _ = ending.wait_for(Option::is_some) => {}
                _ = waits.wait_for(|waits| *waits), if soon => {}
            }
        })
        .await;
        if let Some(ending) = &*self.result.borrow() {
            return RunProgress::Ended(ending.clone());
        }
        RunProgress::Running(RunningExecution {
            execution_id: self.id,
            session_id: self.session,
            status: if *self.waiting.borrow() {
                ExecutionStatus::WaitingApproval
            } else {
                ExecutionStatus::Running
            },
            stdout: String::new(),
            stderr: String::new(),
            elapsed_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            approvals: Vec::new(),
            unrepeatable: lock(&self.unrepeatable).clone(),
            waits_behind: None,
        })
    }

    pub(crate) async fn wait_until_over(&self) {
        let mut ending = self.result.subscribe();
        // `self` holds the sender.
        let _ = ending.wait_for(Option::is_some).await;
    }
}

/// Adds the output of a run to its buffer.
pub(crate) struct RunOutput(pub(crate) Arc<TrackedRun>);

impl OutputObserver for RunOutput {
    fn on_output(&mut self, stream: ProgramStream, bytes: &[u8]) {
        lock(&self.0.output).append(stream, bytes);
        self.0.changes.send_replace(());
    }
}

/// Ends a run whose task was dropped or panicked, so that no client waits forever.
pub(crate) struct AbortGuard(pub(crate) Arc<TrackedRun>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if !self.0.is_over() {
            self.0.finish(Err(Arc::new(OperationError::Abandoned)));
        }
    }
}

/// A slot among the runs of a principal.
#[derive(Debug)]
pub(crate) struct RunPlace {
    place: OwnedSemaphorePermit,
    of: Arc<Semaphore>,
}

/// The executions that clients began in this process.
#[derive(Default)]
pub(crate) struct RunRegistry {
    table: Mutex<RunTable>,
    /// How many refused runs each principal may still have recorded.
    pub(crate) refused: RefusedRuns,
}

#[derive(Default)]
struct RunTable {
    by_id: HashMap<ExecutionId, Arc<TrackedRun>>,
    /// The ids of all runs, oldest first.
    order: VecDeque<ExecutionId>,
    /// The load of the runs that have ended.
    load: RunLoad,
    slots: HashMap<Principal, Arc<Semaphore>>,
}

impl RunRegistry {
    /// Acquires a slot among the runs of `who`; an error where all are taken.
    pub(crate) fn place(&self, who: Principal) -> Result<RunPlace, OperationError> {
        let of = self.principal_slots(who);
        let place = Arc::clone(&of)
            .try_acquire_owned()
            .map_err(|_| OperationError::TooManyRuns)?;
        Ok(RunPlace { place, of })
    }

    pub(crate) fn add(
        &self,
        id: ExecutionId,
        through: ReadContext,
        (principal, RunPlace { place, of }): (Principal, RunPlace),
        files: PathBuf,
    ) -> (Arc<TrackedRun>, Stop) {
        self.insert((id, through, principal), files, of, Some(place))
    }

    /// Adds a run that resumes after it had no process; it gets a slot when there is one.
    pub(crate) fn add_resumed(
        &self,
        id: ExecutionId,
        through: ReadContext,
        principal: Principal,
        files: PathBuf,
    ) -> (Arc<TrackedRun>, Stop) {
        let places = self.principal_slots(principal);
        self.insert((id, through, principal), files, places, None)
    }

    fn principal_slots(&self, principal: Principal) -> Arc<Semaphore> {
        let mut kept = lock(&self.table);
        let places = kept.slots.entry(principal);
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(MAX_ACTIVE_RUNS))))
    }

    fn insert(
        &self,
        (id, through, principal): (ExecutionId, ReadContext, Principal),
        files: PathBuf,
        places: Arc<Semaphore>,
        place: Option<OwnedSemaphorePermit>,
    ) -> (Arc<TrackedRun>, Stop) {
        let (switch, stop) = Stop::new();
        let run = Arc::new(TrackedRun {
            id,
            session: through.session,
            read_context: Mutex::new(Arc::new(through)),
            principal,
            begun: Instant::now(),
            ended: OnceLock::new(),
            output: Mutex::default(),
            changes: watch::Sender::new(()),
            cancel_switch: switch,
            result: watch::Sender::new(None),
            files,
            waiting: watch::Sender::new(false),
            unrepeatable: Mutex::default(),
            slot: Mutex::new(place),
            slots: places,
            resume_signal: Notify::new(),
        });
        let mut kept = lock(&self.table);
        kept.by_id.insert(id, Arc::clone(&run));
        kept.order.push_back(id);
        (run, stop)
    }

    /// Removes a run that ends in another process.
    pub(crate) fn remove(&self, id: ExecutionId) {
        let mut kept = lock(&self.table);
        kept.by_id.remove(&id);
        kept.order.retain(|kept| *kept != id);
    }

    /// Adds an ended run to the load; returns the oldest runs that are dropped to make room.
    pub(crate) fn record_end(&self, run: &TrackedRun) -> Vec<Arc<TrackedRun>> {
        let is_too_much = {
            let mut kept = lock(&self.table);
            kept.load.add(run.load());
            kept.load.is_over(MAX_KEPT_LOAD)
        };
        if is_too_much {
            self.forget_where(|_, load| load.is_over(MAX_KEPT_LOAD.with_headroom()))
        } else {
            Vec::new()
        }
    }

    pub(crate) fn find(&self, who: Principal, id: ExecutionId) -> Option<Arc<TrackedRun>> {
        lock(&self.table)
            .by_id
            .get(&id)
            .filter(|run| run.principal == who)
            .cloned()
    }

    /// A run of this process that has not ended.
    pub(crate) fn find_any(&self, id: ExecutionId) -> Option<Arc<TrackedRun>> {
        lock(&self.table).by_id.get(&id).filter(|run| !run.is_over()).cloned()
    }

    /// The active runs of a session, or of all sessions.
    pub(crate) fn active(&self, session: Option<SessionId>) -> Vec<Arc<TrackedRun>> {
        let kept = lock(&self.table);
        let wanted = |run: &&Arc<TrackedRun>| session.is_none_or(|session| run.session == session) && !run.is_over();
        kept.by_id.values().filter(wanted).cloned().collect()
    }

    /// Drops runs that ended longer ago than this.
    pub(crate) fn forget_older_than(&self, older_than: Duration) -> Vec<Arc<TrackedRun>> {
        self.forget_where(|run, _| run.ended.get().is_some_and(|ended| ended.elapsed() >= older_than))
    }

    /// Drops ended runs, oldest first, where `old` says so of the run and of the total load.
    fn forget_where(&self, old: impl Fn(&TrackedRun, RunLoad) -> bool) -> Vec<Arc<TrackedRun>> {
        let mut kept = lock(&self.table);
        let mut forgotten = Vec::new();
        for id in std::mem::take(&mut kept.order) {
            let Some(run) = kept.by_id.get(&id) else { continue };
            if run.is_over() && old(run, kept.load) {
                let load = run.load();
                kept.load.subtract(load);
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
