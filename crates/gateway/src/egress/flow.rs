//! One flow, from its start in the journal to its end: its byte counts, its policy slot and its error.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::generation::EgressSlot;
use super::limit::EgressLimiter;
use super::record::{FlowEnd, FlowRecorder};
use crate::credential::StandInMisuse;
use crate::refusal::RequestRefusal;

/// A flow that was let out. Dropping it after the last byte records its end.
#[derive(Debug)]
pub(super) struct EgressFlow {
    recorder: Arc<FlowRecorder>,
    limiter: Arc<EgressLimiter>,
    number: u64,
    begun: Instant,
    out: AtomicU64,
    back: AtomicU64,
    status: AtomicU16,
    fault: OnceLock<&'static str>,
    /// The refusal with which the proxy cut the flow off itself.
    cut: OnceLock<RequestRefusal>,
    slot: EgressSlot,
}

/// Why no more bytes may pass.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum FlowCut {
    #[error("other rules are in force, and they forbid it")]
    Forbidden,
    #[error("the session's bytes are used up")]
    Spent,
}

impl EgressFlow {
    pub(super) fn new(
        recorder: Arc<FlowRecorder>,
        limiter: Arc<EgressLimiter>,
        number: u64,
        slot: EgressSlot,
    ) -> EgressFlow {
        recorder.count_opened();
        EgressFlow {
            recorder,
            limiter,
            number,
            begun: Instant::now(),
            out: AtomicU64::new(0),
            back: AtomicU64::new(0),
            status: AtomicU16::new(0),
            fault: OnceLock::new(),
            cut: OnceLock::new(),
            slot,
        }
    }

    /// Counts bytes that are about to be sent.
    pub(super) fn count_out(&self, bytes: usize) -> Result<(), FlowCut> {
        self.count_bytes(&self.out, bytes)
    }

    /// Counts bytes that were received.
    pub(super) fn count_back(&self, bytes: usize) -> Result<(), FlowCut> {
        self.count_bytes(&self.back, bytes)
    }

    fn count_bytes(&self, way: &AtomicU64, bytes: usize) -> Result<(), FlowCut> {
        if self.slot.is_closed() {
            self.set_fault("net.denied");
            return Err(FlowCut::Forbidden);
        }
        way.fetch_add(bytes as u64, Ordering::Relaxed);
        self.limiter
            .spend_bytes(bytes as u64)
            .map_err(|refusal: RequestRefusal| {
                self.cut_off(refusal);
                FlowCut::Spent
            })
    }

    pub(super) fn set_status(&self, status: http::StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Sets the error code; the first one is kept.
    pub(super) fn set_fault(&self, code: &'static str) {
        let _ = self.fault.set(code);
    }

    /// Cuts the flow off because a stand-in is in what it sends.
    pub(super) fn cut_for_misuse(&self, misuse: &StandInMisuse) {
        self.cut_off((*misuse.refusal).clone());
        self.recorder.queue_misuse(self.number, misuse);
    }

    fn cut_off(&self, refusal: RequestRefusal) {
        self.set_fault(refusal.code);
        let _ = self.cut.set(refusal);
    }

    /// Returns the refusal if the proxy cut the flow off; otherwise `other`.
    pub(super) fn refusal_or(&self, other: RequestRefusal) -> RequestRefusal {
        self.cut.get().cloned().unwrap_or(other)
    }

    /// Waits until the flow must end.
    pub(super) fn wait_until_closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.slot.wait_until_closed()
    }
}

impl Drop for EgressFlow {
    fn drop(&mut self) {
        if self.slot.was_closed_by_change() {
            self.set_fault("net.denied");
        }
        let (out, back) = (self.out.load(Ordering::Relaxed), self.back.load(Ordering::Relaxed));
        let status = self.status.load(Ordering::Relaxed);
        self.recorder.queue_end(&FlowEnd {
            number: self.number,
            status: (status != 0).then_some(status),
            error: self.fault.get().copied(),
            bytes_out: out,
            bytes_in: back,
            duration_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}
