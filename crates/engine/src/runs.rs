//! Executions that clients began: whoever asks can wait for one, hear it, end it, and read what it left, for a while.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Principal, SessionId, Status};
use ringfence_policy::RelPath;
use ringfence_sandbox::Stop;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::error::RunError;
use crate::execution::Execution;
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
    /// Always `running`.
    pub status: Status,
    /// What it printed since it was last asked.
    pub stdout: String,
    /// What it printed as errors since.
    pub stderr: String,
    /// How long it goes on.
    pub elapsed_ms: u64,
}

/// Why nothing can be said of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// There is none, or it is somebody else's.
    #[error("there is no execution `{0}`")]
    Unknown(ExecutionId),
    /// It is over, and its result is no longer kept.
    #[error("the result of execution `{id}` is no longer kept; it ended as `{}`", status.name())]
    Forgotten {
        /// Which.
        id: ExecutionId,
        /// How it ended.
        status: Status,
    },
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
    heard: Mutex<Heard>,
    switch: watch::Sender<bool>,
    ending: watch::Sender<Option<Ending>>,
    /// Where its files are, if it made any.
    pub(crate) files: PathBuf,
    /// Its place among those of its principal, until it is over.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

#[derive(Default)]
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what is whole: half of a character waits for its other half.
fn take_text(bytes: &mut Vec<u8>) -> String {
    let cut = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let rest = bytes.split_off(cut);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

impl Run {
    pub(crate) fn cancel(&self) {
        self.switch.send_replace(true);
    }

    pub(crate) fn end(&self, ending: Ending) {
        *lock(&self.heard) = Heard::default();
        lock(&self.place).take();
        self.ending.send_replace(Some(ending));
    }

    fn is_over(&self) -> bool {
        self.ending.borrow().is_some()
    }

    fn load(&self) -> Load {
        let mut load = Load {
            runs: 1,
            ..Load::default()
        };
        if let Some(Ok(execution)) = &*self.ending.borrow() {
            let value = execution.value.as_ref().map_or(0, |value| value.get().len());
            load.memory = (execution.stdout.len() + execution.stderr.len() + value) as u64;
            load.disk = execution.files.iter().map(|file| file.bytes).sum();
        }
        load
    }

    pub(crate) async fn wait(&self, at_most: Duration) -> Progress {
        let mut ending = self.ending.subscribe();
        // Out of time is an answer too.
        let _ = tokio::time::timeout(at_most, ending.wait_for(Option::is_some)).await;
        if let Some(ending) = &*self.ending.borrow() {
            return Progress::Ended(ending.clone());
        }
        let mut heard = lock(&self.heard);
        Progress::Running(Running {
            execution_id: self.id,
            session_id: self.session,
            status: Status::Running,
            stdout: take_text(&mut heard.stdout),
            stderr: take_text(&mut heard.stderr),
            elapsed_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
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
        let mut heard = lock(&self.0.heard);
        match stream {
            Stream::Stdout => heard.stdout.extend_from_slice(bytes),
            Stream::Stderr => heard.stderr.extend_from_slice(bytes),
        }
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
    pub(crate) fn add(
        &self,
        id: ExecutionId,
        session: SessionId,
        principal: Principal,
        files: PathBuf,
    ) -> Result<(Arc<Run>, Stop), RunError> {
        let mut kept = lock(&self.0);
        let places = kept.places.entry(principal);
        let places = places.or_insert_with(|| Arc::new(Semaphore::new(MOST_AT_ONCE)));
        let place = Arc::clone(places).try_acquire_owned().map_err(|_| RunError::Crowded)?;
        let (switch, stop) = Stop::new();
        let run = Arc::new(Run {
            id,
            session,
            principal,
            begun: Instant::now(),
            heard: Mutex::default(),
            switch,
            ending: watch::Sender::new(None),
            files,
            place: Mutex::new(Some(place)),
        });
        kept.by_id.insert(id, Arc::clone(&run));
        kept.order.push_back(id);
        Ok((run, stop))
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

    /// Everything of a session that goes on, or of all.
    pub(crate) fn under_way(&self, session: Option<SessionId>) -> Vec<Arc<Run>> {
        let kept = lock(&self.0);
        let wanted = |run: &&Arc<Run>| session.is_none_or(|session| run.session == session) && !run.is_over();
        kept.by_id.values().filter(wanted).cloned().collect()
    }

    /// Forgets what is over and old.
    pub(crate) fn forget(&self, older_than: Duration) -> Vec<Arc<Run>> {
        self.forget_where(|run, _| run.begun.elapsed() >= older_than)
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
