//! One flow, from its start in the journal to its end: its byte counts, its policy slot and its error.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::generation::Place;
use super::limit::Limiter;
use super::record::{End, Ledger};
use crate::credential::Misuse;
use crate::refusal::Refusal;

/// A flow that was let out. Dropping it after the last byte records its end.
#[derive(Debug)]
pub(super) struct Passage {
    ledger: Arc<Ledger>,
    limiter: Arc<Limiter>,
    number: u64,
    begun: Instant,
    out: AtomicU64,
    back: AtomicU64,
    status: AtomicU16,
    fault: OnceLock<&'static str>,
    /// The refusal with which the proxy cut the flow off itself.
    cut: OnceLock<Refusal>,
    place: Place,
}

/// Why no more bytes may pass.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Cut {
    #[error("other rules are in force, and they forbid it")]
    Forbidden,
    #[error("the session's bytes are used up")]
    Spent,
}

impl Passage {
    pub(super) fn new(ledger: Arc<Ledger>, limiter: Arc<Limiter>, number: u64, place: Place) -> Passage {
        ledger.leaves();
        Passage {
            ledger,
            limiter,
            number,
            begun: Instant::now(),
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            status: AtomicU16::new(0),
            fault: OnceLock::new(),
            cut: OnceLock::new(),
            place,
        }
    }

    /// Counts bytes that are about to be sent.
    pub(super) fn out(&self, bytes: usize) -> Result<(), Cut> {
        self.cross(&self.out, bytes)
    }

    /// Counts bytes that were received.
    pub(super) fn back(&self, bytes: usize) -> Result<(), Cut> {
        self.cross(&self.back, bytes)
    }

    fn cross(&self, way: &AtomicU64, bytes: usize) -> Result<(), Cut> {
        if self.place.is_closed() {
            self.fault("net.denied");
            return Err(Cut::Forbidden);
        }
        way.fetch_add(bytes as u64, Ordering::Relaxed);
        self.limiter.spend(bytes as u64).map_err(|refusal: Refusal| {
            self.cut(refusal);
            Cut::Spent
        })
    }

    pub(super) fn status(&self, status: http::StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Sets the error code; the first one is kept.
    pub(super) fn fault(&self, code: &'static str) {
        let _ = self.fault.set(code);
    }

    /// Cuts the flow off because a stand-in is in what it sends.
    pub(super) fn misuse(&self, misuse: &Misuse) {
        self.cut((*misuse.refusal).clone());
        self.ledger.misuse(self.number, misuse);
    }

    fn cut(&self, refusal: Refusal) {
        self.fault(refusal.code);
        let _ = self.cut.set(refusal);
    }

    /// Returns the refusal if the proxy cut the flow off; otherwise `other`.
    pub(super) fn reason(&self, other: Refusal) -> Refusal {
        self.cut.get().cloned().unwrap_or(other)
    }

    /// Waits until the flow must end.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.place.closed()
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        if self.place.was_closed() {
            self.fault("net.denied");
        }
        let (out, back) = (self.out.load(Ordering::Relaxed), self.back.load(Ordering::Relaxed));
        let status = self.status.load(Ordering::Relaxed);
        self.ledger.ended(&End {
            number: self.number,
            status: (status != 0).then_some(status),
            error: self.fault.get().copied(),
            bytes_out: out,
            bytes_in: back,
            duration_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}
