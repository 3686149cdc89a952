//! Batches the end events of calls for the journal. Nobody waits for an end event, so it is written with the next
//! record, or after a short delay: half as many commits for a program that calls tools one after another. A crash
//! within the delay loses the end events, and the effect of these calls is then reported as unknown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{Entry, Event, KeepingRecorder, RecordError, Recorder};
use tokio::sync::RwLock;

/// The longest that an end event waits for another record.
const MOMENT: Duration = Duration::from_millis(20);

/// An event with the call log entries of the same commit.
#[derive(Debug)]
pub(crate) struct Kept(pub(crate) Event, pub(crate) Vec<Entry>);

/// Writes events of this type to the journal.
pub(crate) trait Writes<T>: Send + Sync {
    fn put(&self, written: T) -> impl Future<Output = Result<(), RecordError>> + Send;
}

impl<R: Recorder> Writes<Event> for R {
    async fn put(&self, event: Event) -> Result<(), RecordError> {
        self.record(event).await.map(drop)
    }
}

impl<R: KeepingRecorder> Writes<Kept> for R {
    async fn put(&self, Kept(event, entries): Kept) -> Result<(), RecordError> {
        let written = if entries.is_empty() {
            self.record(event).await
        } else {
            self.record_keeping(event, entries).await
        };
        written.map(drop)
    }
}

/// End events that are not written yet.
#[derive(Debug)]
pub(crate) struct Ends<R, T = Event> {
    recorder: R,
    waiting: Arc<Mutex<Waiting<T>>>,
    /// Held for reading during a write; a lock for writing proves that all writes before it are complete.
    writing: Arc<RwLock<()>>,
}

#[derive(Debug)]
struct Waiting<T> {
    ends: Vec<T>,
    /// A delayed flush is scheduled.
    fetched: bool,
    failed: Option<RecordError>,
}

fn lock<T>(waiting: &Mutex<Waiting<T>>) -> MutexGuard<'_, Waiting<T>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + 'static, R: Writes<T> + Clone + 'static> Ends<R, T> {
    pub(crate) fn new(recorder: R) -> Ends<R, T> {
        Ends {
            recorder,
            waiting: Arc::new(Mutex::new(Waiting {
                ends: Vec::new(),
                fetched: false,
                failed: None,
            })),
            writing: Arc::default(),
        }
    }

    /// Adds an end event, and schedules a flush if there is none.
    pub(crate) fn add(&self, end: T) {
        let mut waiting = lock(&self.waiting);
        waiting.ends.push(end);
        if std::mem::replace(&mut waiting.fetched, true) {
            return;
        }
        let ends = Ends {
            recorder: self.recorder.clone(),
            waiting: Arc::clone(&self.waiting),
            writing: Arc::clone(&self.writing),
        };
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            lock(&ends.waiting).fetched = false;
            // The error is stored and returned to the next caller.
            let _ = ends.write().await;
        });
    }

    /// Writes the pending events; fails if any event could not be written, also earlier ones.
    pub(crate) async fn write(&self) -> Result<(), RecordError> {
        let _writing = self.writing.read().await;
        let ends = std::mem::take(&mut lock(&self.waiting).ends);
        let written = futures::future::join_all(ends.into_iter().map(|end| self.recorder.put(end))).await;
        let failed = written.into_iter().find_map(Result::err);
        let mut waiting = lock(&self.waiting);
        if let Some(error) = failed {
            waiting.failed.get_or_insert(error);
        }
        waiting.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes the pending events and waits for writes in progress: then every event until now is written.
    pub(crate) async fn write_all(&self) -> Result<(), RecordError> {
        self.write().await?;
        let _nobody = self.writing.write().await;
        self.failed().map_or(Ok(()), Err)
    }

    /// Returns why an event could not be written; nothing more may happen then.
    pub(crate) fn failed(&self) -> Option<RecordError> {
        lock(&self.waiting).failed.clone()
    }
}

#[cfg(test)]
mod tests;
