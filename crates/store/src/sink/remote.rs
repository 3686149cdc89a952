//! Remote sinks: a task per sink delivers queued records in batches and retries with growing delays while the destination is unavailable.
//! Order is preserved: no record overtakes a retried one.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{Cause, Outlet, Record, RecordError, Undelivered};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{QUEUE, Tally};

/// Bytes of records that may be queued for a sink before further ones are dropped.
const QUEUE_BYTES: usize = 32 << 20;
/// The most records, and about the most bytes, of one batch.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// The delay before a retry: the first and the longest.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a batch is retried before it is dropped.
const GIVE_UP: Duration = Duration::from_mins(15);
/// How long an act waits for a durable sink; and for one that was late before.
const ACT_WAITS: Duration = Duration::from_secs(10);
const ACT_WAITS_AGAIN: Duration = Duration::from_secs(1);

/// A remote sink and its delivery port.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The port that delivers records to the destination.
    pub outlet: Arc<dyn Outlet>,
    /// Whether an act waits until its record is delivered, and fails otherwise.
    pub durable: bool,
}

/// A running remote sink: its queue and its task.
pub(super) struct Line {
    pub(super) tally: Arc<Tally>,
    durable: bool,
    queue: mpsc::Sender<Item>,
    hurry: Arc<Notify>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A queued record, and the channel that reports its delivery.
struct Item {
    record: Arc<Record>,
    waits: Option<oneshot::Sender<Result<(), Cause>>>,
}

impl Line {
    pub(super) fn start(remote: Remote) -> Line {
        let tally = Arc::new(Tally::new(remote.outlet.name().to_owned()));
        let (queue, inbox) = mpsc::channel(QUEUE);
        let (closing, closed) = watch::channel(false);
        let hurry = Arc::new(Notify::new());
        let carrier = Carrier {
            outlet: remote.outlet,
            tally: Arc::clone(&tally),
            hurry: Arc::clone(&hurry),
            closing: closed,
        };
        Line {
            tally,
            durable: remote.durable,
            queue,
            hurry,
            closing,
            task: tokio::spawn(carrier.run(inbox)),
        }
    }

    /// Queues a record, if the queue has space; a durable sink adds its receipt to `taking`.
    pub(super) fn offer(&self, record: &Arc<Record>, taking: &mut Taking) {
        let (waits, taken) = oneshot::channel();
        if self.durable {
            taking.0.push((Arc::clone(&self.tally), taken));
        }
        self.tally.came(record);
        let item = Item {
            record: Arc::clone(record),
            waits: self.durable.then_some(waits),
        };
        // Dropping an item closes its channel, which tells the waiting act.
        if self.tally.bytes() > QUEUE_BYTES || self.queue.try_send(item).is_err() {
            self.tally.missed(record, "its queue is full");
        }
        if self.durable {
            self.hurry.notify_one();
        }
    }

    /// Closes the queue and ends retry delays.
    pub(super) fn end(self) -> Ending {
        // Nobody receives it if the task has already ended.
        let _ = self.closing.send(true);
        Ending {
            tally: self.tally,
            task: self.task,
            _closing: self.closing,
        }
    }
}

/// A remote sink that still delivers its queue.
pub(super) struct Ending {
    tally: Arc<Tally>,
    task: JoinHandle<()>,
    _closing: watch::Sender<bool>,
}

impl Ending {
    /// Waits until the deadline; records that are still queued then count as missed.
    pub(super) async fn by(mut self, deadline: Instant) -> Arc<Tally> {
        if tokio::time::timeout_at(deadline, &mut self.task).await.is_err() {
            self.task.abort();
        }
        self.tally.abandoned();
        self.tally
    }
}

/// Receipts that durable sinks must give before anybody is told of a commit.
#[derive(Default)]
pub(crate) struct Taking(Vec<(Arc<Tally>, Taken)>);

/// Reports that a record was delivered, or why not.
type Taken = oneshot::Receiver<Result<(), Cause>>;

impl Taking {
    /// Whether no durable sink is involved.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for every receipt; fails if a record was dropped or a sink is late.
    pub(crate) async fn all(self) -> Result<(), RecordError> {
        let began = Instant::now();
        for (tally, taken) in self.0 {
            let patience = if tally.is_late() { ACT_WAITS_AGAIN } else { ACT_WAITS };
            let deadline = began + patience;
            let outcome = tokio::time::timeout_at(deadline, taken).await;
            let why: Cause = match outcome {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(why))) => why,
                Ok(Err(_)) => Arc::new(Lost::Dropped),
                Err(_) => {
                    tally.late();
                    Arc::new(Lost::Late(patience, tally.trouble()))
                }
            };
            return Err(RecordError::Sink {
                sink: tally.name.clone(),
                source: why,
            });
        }
        Ok(())
    }
}

/// Why no receipt came for a record.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("it was dropped: the queue is full, or the journal closes")]
    Dropped,
    #[error("it waits for more than {} s{}", .0.as_secs(), why(.1))]
    Late(Duration, String),
}

fn why(trouble: &str) -> String {
    if trouble.is_empty() {
        String::new()
    } else {
        format!(", the last try: {trouble}")
    }
}

struct Carrier {
    outlet: Arc<dyn Outlet>,
    tally: Arc<Tally>,
    /// Signals that an act waits for a receipt.
    hurry: Arc<Notify>,
    closing: watch::Receiver<bool>,
}

impl Carrier {
    async fn run(mut self, mut inbox: mpsc::Receiver<Item>) {
        let mut waiting = Vec::with_capacity(BATCH);
        while inbox.recv_many(&mut waiting, BATCH).await > 0 {
            while !waiting.is_empty() {
                let mut bytes = 0;
                let fits = waiting.iter().take_while(|item| {
                    bytes += item.record.json.len();
                    bytes <= BATCH_BYTES
                });
                let count = fits.count().max(1);
                self.deliver(waiting.drain(..count).collect()).await;
            }
        }
    }

    /// Retries a batch until it is delivered, rejected, or the delivery timeout has passed.
    async fn deliver(&mut self, items: Vec<Item>) {
        let records: Vec<Arc<Record>> = items.iter().map(|item| Arc::clone(&item.record)).collect();
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let Err(error) = self.outlet.deliver(&records).await else {
                self.tally.well();
                return self.settle(items, &Ok(()));
            };
            match error {
                Undelivered::Never { count, source } => {
                    self.tally.refused(count, &chain(&*source));
                    return self.settle(items, &Err(source));
                }
                Undelivered::Later(source) if began.elapsed() >= GIVE_UP => {
                    self.tally.refused(items.len(), &chain(&*source));
                    return self.settle(items, &Err(source));
                }
                Undelivered::Later(source) => self.tally.tried(&chain(&*source)),
            }
            pause = self.rest(pause).await;
        }
    }

    /// Waits before a retry and returns the next delay. During shutdown the delay stays short.
    async fn rest(&mut self, pause: Duration) -> Duration {
        if *self.closing.borrow() {
            tokio::time::sleep(jittered(PAUSE)).await;
            return PAUSE;
        }
        tokio::select! {
            () = tokio::time::sleep(jittered(pause)) => (pause * 2).min(LONGEST_PAUSE),
            _ = self.closing.changed() => PAUSE,
            () = self.hurry.notified() => {
                tokio::time::sleep(jittered(PAUSE / 2)).await;
                pause
            }
        }
    }

    fn settle(&self, items: Vec<Item>, outcome: &Result<(), Cause>) {
        for item in items {
            self.tally.taken(&item.record);
            if let Some(waits) = item.waits {
                // The waiting act may have timed out.
                let _ = waits.send(outcome.clone());
            }
        }
    }
}

/// Between half of the delay and all of it, so that many clients of one endpoint do not retry at the same moment.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 4];
    match getrandom::fill(&mut random) {
        Ok(()) => pause.mul_f64(0.5 + f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX) / 2.0),
        Err(_) => pause,
    }
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
