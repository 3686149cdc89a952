//! What a sink has, took and missed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ringfence_journal::Record;
use serde::Serialize;

/// Records that a sink did not take. They are in the journal, and in every export of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// The sink.
    pub sink: String,
    /// How many records.
    pub records: u64,
    /// When the first of them was missed.
    pub since: Timestamp,
    /// When the last of them was missed.
    pub last: Timestamp,
    /// Why, the last time.
    pub reason: String,
}

/// Counts of one sink.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) name: String,
    /// Records that wait, and their bytes.
    waiting: AtomicU64,
    bytes: AtomicUsize,
    missed: AtomicU64,
    /// Of the missed ones, those that nobody wrote down yet.
    unsaid: AtomicU64,
    reason: Mutex<String>,
    /// Why the last try failed, while there is one.
    trouble: Mutex<String>,
    /// An act waited in vain.
    late: AtomicBool,
}

impl Tally {
    pub(crate) fn new(name: String) -> Tally {
        Tally {
            name,
            waiting: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
            reason: Mutex::default(),
            trouble: Mutex::default(),
            late: AtomicBool::new(false),
        }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A record begins to wait.
    pub(crate) fn came(&self, record: &Record) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(record.json.len(), Ordering::Relaxed);
    }

    /// A record that waited is where it should be.
    pub(crate) fn taken(&self, record: &Record) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(record.json.len(), Ordering::Relaxed);
    }

    /// A record that waited is dropped.
    pub(crate) fn missed(&self, record: &Record, reason: &str) {
        self.taken(record);
        self.add(1, reason);
    }

    /// A try failed; another follows.
    pub(crate) fn tried(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble != why {
            tracing::debug!(sink = self.name, reason = why, "records wait for a sink");
            why.clone_into(&mut trouble);
        }
    }

    /// A try did not fail.
    pub(crate) fn well(&self) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.late.store(false, Ordering::Relaxed);
    }

    /// Why the last try failed; empty if it did not.
    pub(crate) fn trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An act waited in vain.
    pub(crate) fn late(&self) {
        self.late.store(true, Ordering::Relaxed);
    }

    /// Whether an act waited in vain, and nothing was taken since.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Records that were handed over, and not kept there.
    pub(crate) fn refused(&self, count: usize, reason: &str) {
        self.add(u64::try_from(count).unwrap_or(u64::MAX), reason);
    }

    /// The end comes before the sink had everything.
    pub(crate) fn abandoned(&self) {
        let left = self.waiting.swap(0, Ordering::Relaxed);
        if left > 0 {
            let reason = match self.trouble() {
                trouble if trouble.is_empty() => "the program ended before it took them".to_owned(),
                trouble => trouble,
            };
            self.add(left, &reason);
        }
    }

    /// Says so at the first, and at each power of two.
    fn add(&self, count: u64, reason: &str) {
        reason.clone_into(&mut self.reason.lock().unwrap_or_else(PoisonError::into_inner));
        self.unsaid.fetch_add(count, Ordering::Relaxed);
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

    /// The last word in the log.
    pub(crate) fn say(&self) {
        let missed = self.missed.load(Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(sink = self.name, missed, "records were not delivered to a sink");
        }
    }

    /// What was missed since this was asked last, for somebody to write down.
    pub(crate) fn unsaid(&self) -> Option<(u64, String)> {
        let count = self.unsaid.swap(0, Ordering::Relaxed);
        let reason = || self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (count > 0).then(|| (count, reason()))
    }

    /// It could not be written down.
    pub(crate) fn still_unsaid(&self, count: u64) {
        self.unsaid.fetch_add(count, Ordering::Relaxed);
    }
}
