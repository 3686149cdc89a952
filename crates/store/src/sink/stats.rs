//! The statistics of one sink: queued, delivered and missed records.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ringfence_journal::Record;
use serde::Serialize;

/// Records that were not delivered to a sink. They are still in the journal and in every export of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissedRecords {
    /// The name of the sink, as in the log.
    pub sink: String,
    /// How many records were not delivered.
    pub records: u64,
    /// When the first of them was missed.
    pub since: Timestamp,
    /// When the last of them was missed.
    pub last: Timestamp,
    /// The reason of the last miss.
    pub reason: String,
}

/// The statistics of one sink.
#[derive(Debug)]
pub(crate) struct SinkStats {
    pub(crate) name: String,
    /// Queued records, and their size in bytes.
    waiting: AtomicU64,
    bytes: AtomicUsize,
    missed: AtomicU64,
    /// Missed records that are not recorded in the database yet.
    unrecorded: AtomicU64,
    reason: Mutex<String>,
    /// Why the last delivery failed; empty after a success.
    failure: Mutex<String>,
    /// Whether an act timed out since the last success.
    late: AtomicBool,
}

impl SinkStats {
    pub(crate) fn new(name: String) -> SinkStats {
        SinkStats {
            name,
            waiting: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            unrecorded: AtomicU64::new(0),
            reason: Mutex::default(),
            failure: Mutex::default(),
            late: AtomicBool::new(false),
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts a record that is queued.
    pub(crate) fn note_queued(&self, record: &Record) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(record.json.len(), Ordering::Relaxed);
    }

    /// Counts a queued record as delivered.
    pub(crate) fn note_delivered(&self, record: &Record) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(record.json.len(), Ordering::Relaxed);
    }

    /// Counts a queued record as dropped.
    pub(crate) fn note_dropped(&self, record: &Record, reason: &str) {
        self.note_delivered(record);
        self.add_missed(1, reason);
    }

    /// Notes a failed delivery that is retried.
    pub(crate) fn note_failed_try(&self, why: &str) {
        let mut trouble = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble != why {
            tracing::debug!(sink = self.name, reason = why, "records wait for a sink");
            why.clone_into(&mut trouble);
        }
    }

    /// Notes a successful delivery.
    pub(crate) fn note_success(&self) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.late.store(false, Ordering::Relaxed);
    }

    /// Why the last delivery failed; empty if it succeeded.
    pub(crate) fn last_failure(&self) -> String {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that an act timed out.
    pub(crate) fn mark_late(&self) {
        self.late.store(true, Ordering::Relaxed);
    }

    /// Whether an act timed out and nothing was delivered since.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Counts records that were delivered but rejected.
    pub(crate) fn note_refused(&self, count: usize, reason: &str) {
        self.add_missed(u64::try_from(count).unwrap_or(u64::MAX), reason);
    }

    /// Counts the records that are still queued at shutdown as missed.
    pub(crate) fn note_abandoned(&self) {
        let left = self.waiting.swap(0, Ordering::Relaxed);
        if left > 0 {
            let reason = match self.last_failure() {
                trouble if trouble.is_empty() => "the program ended before it took them".to_owned(),
                trouble => trouble,
            };
            self.add_missed(left, &reason);
        }
    }

    /// Adds to the missed records; logs at the first and at each power of two.
    fn add_missed(&self, count: u64, reason: &str) {
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        self.unrecorded.fetch_add(count, Ordering::Relaxed);
        let before = self.missed.fetch_add(count, Ordering::Relaxed);
        let total = before + count;
        if before == 0 || total.ilog2() > before.ilog2() {
            tracing::warn!(
                sink = self.name,
                missed = total,
                reason,
                "records are not delivered to a sink"
            );
        }
    }

    /// Logs the final total.
    pub(crate) fn log_total(&self) {
        let missed = self.missed.load(Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(sink = self.name, missed, "records were not delivered to a sink");
        }
    }

    /// Takes the count of missed records that are not recorded yet, with the last reason.
    pub(crate) fn take_unrecorded(&self) -> Option<(u64, String)> {
        let count = self.unrecorded.swap(0, Ordering::Relaxed);
        let reason = || self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (count > 0).then(|| (count, reason()))
    }

    /// Puts the count back after recording it failed.
    pub(crate) fn restore_unrecorded(&self, count: u64) {
        self.unrecorded.fetch_add(count, Ordering::Relaxed);
    }
}
