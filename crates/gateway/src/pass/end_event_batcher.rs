//! Batches the end events of calls for the journal. Nobody waits for an end event, so it is written with the next
//! record, or after a short delay: half as many commits for a program that calls tools one after another. A crash
//! within the delay loses the end events, and the effect of these calls is then reported as unknown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{Event, RecordError, Recorder, ReplayEntry, ReplayRecorder};
use tokio::sync::RwLock;

/// The longest that an end event waits for another record.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(20);

/// An event with the call log entries of the same commit.
#[derive(Debug)]
pub(crate) struct EventWithEntries(pub(crate) Event, pub(crate) Vec<ReplayEntry>);

/// Writes events of this type to the journal.
pub(crate) trait EventWriter<T>: Send + Sync {
    fn write_event(&self, written: T) -> impl Future<Output = Result<(), RecordError>> + Send;
}

impl<R: Recorder> EventWriter<Event> for R {
    async fn write_event(&self, event: Event) -> Result<(), RecordError> {
        self.record(event).await.map(drop)
    }
}

impl<R: ReplayRecorder> EventWriter<EventWithEntries> for R {
    async fn write_event(&self, EventWithEntries(event, entries): EventWithEntries) -> Result<(), RecordError> {
        let written = if entries.is_empty() {
            self.record(event).await
        } else {
            self.record_with_entries(event, entries).await
        };
        written.map(drop)
    }
}

/// End events that are not written yet.
#[derive(Debug)]
pub(crate) struct EndEventBatcher<R, T = Event> {
    recorder: R,
    waiting: Arc<Mutex<PendingEvents<T>>>,
    /// Held for reading during a write; a lock for writing proves that all writes before it are complete.
    writing: Arc<RwLock<()>>,
}

#[derive(Debug)]
struct PendingEvents<T> {
    ends: Vec<T>,
    /// A delayed flush is scheduled.
    is_flush_scheduled: bool,
    failed: Option<RecordError>,
}

fn lock_pending<T>(waiting: &Mutex<PendingEvents<T>>) -> MutexGuard<'_, PendingEvents<T>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + 'static, R: EventWriter<T> + Clone + 'static> EndEventBatcher<R, T> {
    pub(crate) fn new(recorder: R) -> EndEventBatcher<R, T> {
        EndEventBatcher {
            recorder,
            waiting: Arc::new(Mutex::new(PendingEvents {
                ends: Vec::new(),
                is_flush_scheduled: false,
                failed: None,
            })),
            writing: Arc::default(),
        }
    }

    /// Adds an end event, and schedules a flush if there is none.
    pub(crate) fn add(&self, end: T) {
        let mut waiting = lock_pending(&self.waiting);
        waiting.ends.push(end);
        if std::mem::replace(&mut waiting.is_flush_scheduled, true) {
            return;
        }
        let ends = EndEventBatcher {
            recorder: self.recorder.clone(),
            waiting: Arc::clone(&self.waiting),
            writing: Arc::clone(&self.writing),
        };
        tokio::spawn(async move {
            tokio::time::sleep(MAX_BATCH_DELAY).await;
            lock_pending(&ends.waiting).is_flush_scheduled = false;
            // The error is stored and returned to the next caller.
            let _ = ends.flush().await;
        });
    }

    /// Writes the pending events; fails if any event could not be written, also earlier ones.
    pub(crate) async fn flush(&self) -> Result<(), RecordError> {
        let _writing = self.writing.read().await;
        let ends = std::mem::take(&mut lock_pending(&self.waiting).ends);
        let written = futures::future::join_all(ends.into_iter().map(|end| self.recorder.write_event(end))).await;
        let failed = written.into_iter().find_map(Result::err);
        let mut waiting = lock_pending(&self.waiting);
        if let Some(error) = failed {
            waiting.failed.get_or_insert(error);
        }
        waiting.failed.clone().map_or(Ok(()), Err)
    }

    /// Writes the pending events and waits for writes in progress: then every event until now is written.
    pub(crate) async fn flush_all(&self) -> Result<(), RecordError> {
        self.flush().await?;
        let _nobody = self.writing.write().await;
        self.failure().map_or(Ok(()), Err)
    }

    /// Returns why an event could not be written; nothing more may happen then.
    pub(crate) fn failure(&self) -> Option<RecordError> {
        lock_pending(&self.waiting).failed.clone()
    }
}

#[cfg(test)]
mod tests;
