//! The ends of calls on their way to the journal. Nobody waits for one, so it goes with the next record, or after a moment: half
//! as many commits for a program that calls one tool after another. What a crash loses in that moment is a call whose end is
//! unknown, which is what it then says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{Entry, Event, KeepingRecorder, RecordError, Recorder};
use tokio::sync::RwLock;

/// The longest that an end waits for another record to go with.
const MOMENT: Duration = Duration::from_millis(20);

/// An event and what is kept with it.
#[derive(Debug)]
pub(crate) struct Kept(pub(crate) Event, pub(crate) Vec<Entry>);

/// Whoever writes such a thing down.
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

/// Ends that wait.
#[derive(Debug)]
pub(crate) struct Ends<R, T = Event> {
    recorder: R,
    waiting: Arc<Mutex<Waiting<T>>>,
    /// Read by whoever writes ends; whoever may write to it knows that all who did are done.
    writing: Arc<RwLock<()>>,
}

#[derive(Debug)]
struct Waiting<T> {
    ends: Vec<T>,
    /// Somebody comes for them when the moment is over.
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

    /// One more end.
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
            // A failure is remembered, and told to whoever comes next.
            let _ = ends.write().await;
        });
    }

    /// Writes what waits; fails if any end could not be written, also before.
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

    /// Writes what waits, and waits for whoever else is writing: then every end until now is written.
    pub(crate) async fn write_all(&self) -> Result<(), RecordError> {
        self.write().await?;
        let _nobody = self.writing.write().await;
        self.failed().map_or(Ok(()), Err)
    }

    /// Why an end could not be written: nothing more may happen.
    pub(crate) fn failed(&self) -> Option<RecordError> {
        lock(&self.waiting).failed.clone()
    }
}

#[cfg(test)]
mod tests;
