//! The ends of calls on their way to the journal. Nobody waits for one, so it goes with the next record, or after a moment: half
//! as many commits for a program that calls one tool after another. What a crash loses in that moment is a call whose end is
//! unknown, which is what it then says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfence_journal::{Event, RecordError, Recorder};

/// The longest that an end waits for another record to go with.
const MOMENT: Duration = Duration::from_millis(20);

/// Ends that wait.
#[derive(Debug)]
pub(crate) struct Ends<R> {
    recorder: R,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<Event>,
    /// Somebody comes for them when the moment is over.
    fetched: bool,
    failed: Option<RecordError>,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Recorder + Clone + 'static> Ends<R> {
    pub(crate) fn new(recorder: R) -> Ends<R> {
        Ends {
            recorder,
            waiting: Arc::default(),
        }
    }

    /// One more end.
    pub(crate) fn add(&self, event: Event) {
        let mut waiting = lock(&self.waiting);
        waiting.events.push(event);
        if std::mem::replace(&mut waiting.fetched, true) {
            return;
        }
        let (recorder, waiting) = (self.recorder.clone(), Arc::clone(&self.waiting));
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            lock(&waiting).fetched = false;
            // A failure is remembered, and told to whoever comes next.
            let _ = write(&recorder, &waiting).await;
        });
    }

    /// Writes what waits; fails if any end could not be written, also before.
    pub(crate) async fn write(&self) -> Result<(), RecordError> {
        write(&self.recorder, &self.waiting).await
    }

    /// Why an end could not be written: nothing more may happen.
    pub(crate) fn failed(&self) -> Option<RecordError> {
        lock(&self.waiting).failed.clone()
    }
}

async fn write<R: Recorder>(recorder: &R, waiting: &Mutex<Waiting>) -> Result<(), RecordError> {
    let events = std::mem::take(&mut lock(waiting).events);
    let written = futures::future::join_all(events.into_iter().map(|event| recorder.record(event))).await;
    let failed = written.into_iter().find_map(Result::err);
    let mut waiting = lock(waiting);
    if let Some(error) = failed {
        waiting.failed.get_or_insert(error);
    }
    waiting.failed.clone().map_or(Ok(()), Err)
}
