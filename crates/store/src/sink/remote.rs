//! Remote sinks: a task per sink delivers queued records in batches and retries with growing delays while the destination is unavailable.
//! Order is preserved: no record overtakes a retried one.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::{DeliveryFailure, ExternalSink, Record, RecordError, SharedCause};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{QUEUE_CAPACITY, SinkStats};

/// Bytes of records that may be queued for a sink before further ones are dropped.
const MAX_QUEUE_BYTES: usize = 32 << 20;
/// The most records, and about the most bytes, of one batch.
const MAX_BATCH_RECORDS: usize = 256;
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The delay before a retry: the first and the longest.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// How long a batch is retried before it is dropped.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(15);
/// How long an act waits for a durable sink; and for one that was late before.
const DURABLE_SINK_TIMEOUT: Duration = Duration::from_secs(10);
const LATE_SINK_TIMEOUT: Duration = Duration::from_secs(1);

/// A remote sink and its delivery port.
#[derive(Debug, Clone)]
pub struct RemoteSink {
    /// The port that delivers records to the destination.
    pub outlet: Arc<dyn ExternalSink>,
    /// Whether an act waits until its record is delivered, and fails otherwise.
    pub durable: bool,
}

/// A running remote sink: its queue and its task.
pub(super) struct RemoteSinkTask {
    pub(super) tally: Arc<SinkStats>,
    durable: bool,
    queue: mpsc::Sender<QueuedRecord>,
    hurry: Arc<Notify>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A queued record, and the channel that reports its delivery.
struct QueuedRecord {
    record: Arc<Record>,
    waits: Option<oneshot::Sender<Result<(), SharedCause>>>,
}

impl RemoteSinkTask {
    pub(super) fn start(remote: RemoteSink) -> RemoteSinkTask {
        let tally = Arc::new(SinkStats::new(remote.outlet.name().to_owned()));
        let (queue, inbox) = mpsc::channel(QUEUE_CAPACITY);
        let (closing, closed) = watch::channel(false);
        let hurry = Arc::new(Notify::new());
        let carrier = BatchDeliverer {
            outlet: remote.outlet,
            tally: Arc::clone(&tally),
            hurry: Arc::clone(&hurry),
            closing: closed,
        };
        RemoteSinkTask {
            tally,
            durable: remote.durable,
            queue,
            hurry,
            closing,
            task: tokio::spawn(carrier.run(inbox)),
        }
    }

    /// Queues a record, if the queue has space; a durable sink adds its receipt to `taking`.
    pub(super) fn offer(&self, record: &Arc<Record>, taking: &mut SinkReceipts) {
        let (waits, taken) = oneshot::channel();
        if self.durable {
            taking.0.push((Arc::clone(&self.tally), taken));
        }
        self.tally.note_queued(record);
        let item = QueuedRecord {
            record: Arc::clone(record),
            waits: self.durable.then_some(waits),
        };
        // Dropping an item closes its channel, which tells the waiting act.
        if self.tally.queued_bytes() > MAX_QUEUE_BYTES || self.queue.try_send(item).is_err() {
            self.tally.note_dropped(record, "its queue is full");
        }
        if self.durable {
            self.hurry.notify_one();
        }
    }

    /// Closes the queue and ends retry delays.
    pub(super) fn close(self) -> DrainingSink {
        // Nobody receives it if the task has already ended.
        let _ = self.closing.send(true);
        DrainingSink {
            tally: self.tally,
            task: self.task,
            _closing: self.closing,
        }
    }
}

/// A remote sink that still delivers its queue.
pub(super) struct DrainingSink {
    tally: Arc<SinkStats>,
    task: JoinHandle<()>,
    _closing: watch::Sender<bool>,
}

impl DrainingSink {
    /// Waits until the deadline; records that are still queued then count as missed.
    pub(super) async fn finish_by(mut self, deadline: Instant) -> Arc<SinkStats> {
        if tokio::time::timeout_at(deadline, &mut self.task).await.is_err() {
            self.task.abort();
        }
        self.tally.note_abandoned();
        self.tally
    }
}

/// Receipts that durable sinks must give before anybody is told of a commit.
#[derive(Default)]
pub(crate) struct SinkReceipts(Vec<(Arc<SinkStats>, SinkReceipt)>);

/// Reports that a record was delivered, or why not.
type SinkReceipt = oneshot::Receiver<Result<(), SharedCause>>;

impl SinkReceipts {
    /// Whether no durable sink is involved.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for every receipt; fails if a record was dropped or a sink is late.
    pub(crate) async fn wait_for_all(self) -> Result<(), RecordError> {
        let began = Instant::now();
        for (tally, taken) in self.0 {
            let patience = if tally.is_late() {
                LATE_SINK_TIMEOUT
            } else {
                DURABLE_SINK_TIMEOUT
            };
            let deadline = began + patience;
            let outcome = tokio::time::timeout_at(deadline, taken).await;
            let why: SharedCause = match outcome {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(why))) => why,
                Ok(Err(_)) => Arc::new(SinkDeliveryError::Dropped),
                Err(_) => {
                    tally.mark_late();
                    Arc::new(SinkDeliveryError::Late(patience, tally.last_failure()))
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
enum SinkDeliveryError {
    #[error("it was dropped: the queue is full, or the journal closes")]
    Dropped,
    #[error("it waits for more than {} s{}", .0.as_secs(), last_try_suffix(.1))]
    Late(Duration, String),
}

fn last_try_suffix(trouble: &str) -> String {
    if trouble.is_empty() {
        String::new()
    } else {
        format!(", the last try: {trouble}")
    }
}

struct BatchDeliverer {
    outlet: Arc<dyn ExternalSink>,
    tally: Arc<SinkStats>,
    /// Signals that an act waits for a receipt.
    hurry: Arc<Notify>,
    closing: watch::Receiver<bool>,
}

impl BatchDeliverer {
    async fn run(mut self, mut inbox: mpsc::Receiver<QueuedRecord>) {
        let mut waiting = Vec::with_capacity(MAX_BATCH_RECORDS);
        while inbox.recv_many(&mut waiting, MAX_BATCH_RECORDS).await > 0 {
            while !waiting.is_empty() {
                let mut bytes = 0;
                let fits = waiting.iter().take_while(|item| {
                    bytes += item.record.json.len();
                    bytes <= MAX_BATCH_BYTES
                });
                let count = fits.count().max(1);
                self.deliver(waiting.drain(..count).collect()).await;
            }
        }
    }

    /// Retries a batch until it is delivered, rejected, or the delivery timeout has passed.
    async fn deliver(&mut self, items: Vec<QueuedRecord>) {
        let records: Vec<Arc<Record>> = items.iter().map(|item| Arc::clone(&item.record)).collect();
        let began = Instant::now();
        let mut pause = FIRST_RETRY_DELAY;
        loop {
            let Err(error) = self.outlet.deliver(&records).await else {
                self.tally.note_success();
                return self.settle_items(items, &Ok(()));
            };
            match error {
                DeliveryFailure::Never { count, source } => {
                    self.tally.note_refused(count, &error_chain(&*source));
                    return self.settle_items(items, &Err(source));
                }
                DeliveryFailure::Later(source) if began.elapsed() >= DELIVERY_TIMEOUT => {
                    self.tally.note_refused(items.len(), &error_chain(&*source));
                    return self.settle_items(items, &Err(source));
                }
                DeliveryFailure::Later(source) => self.tally.note_failed_try(&error_chain(&*source)),
            }
            pause = self.back_off(pause).await;
        }
    }

    /// Waits before a retry and returns the next delay. During shutdown the delay stays short.
    async fn back_off(&mut self, pause: Duration) -> Duration {
        if *self.closing.borrow() {
            tokio::time::sleep(with_jitter(FIRST_RETRY_DELAY)).await;
            return FIRST_RETRY_DELAY;
        }
        tokio::select! {
            () = tokio::time::sleep(with_jitter(pause)) => (pause * 2).min(MAX_RETRY_DELAY),
            _ = self.closing.changed() => FIRST_RETRY_DELAY,
            () = self.hurry.notified() => {
                tokio::time::sleep(with_jitter(FIRST_RETRY_DELAY / 2)).await;
                pause
            }
        }
    }

    fn settle_items(&self, items: Vec<QueuedRecord>, outcome: &Result<(), SharedCause>) {
        for item in items {
            self.tally.note_delivered(&item.record);
            if let Some(waits) = item.waits {
                // The waiting act may have timed out.
                let _ = waits.send(outcome.clone());
            }
        }
    }
}

/// Between half of the delay and all of it, so that many clients of one endpoint do not retry at the same moment.
fn with_jitter(pause: Duration) -> Duration {
    let mut random = [0; 4];
    match getrandom::fill(&mut random) {
        Ok(()) => pause.mul_f64(0.5 + f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX) / 2.0),
        Err(_) => pause,
    }
}

/// An error with its causes on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
