//! The host's checks on an execution's trace: the record with which code can be run again. Only the worker reads the
//! content; this module bounds how much of it may come, and when.

use crate::outcome::FromChild;
use crate::state::ProtocolViolation;

/// The most bytes of trace of one execution, over all its runs.
pub const TRACE_CAP: u64 = 4 * 1024 * 1024;

/// The most bytes of trace in the message of a call.
pub const MAX_INLINE_TRACE: usize = 4 * 1024;

/// The most bytes of trace in a message of its own.
pub const MAX_TRACE_PIECE: usize = 32 * 1024;

/// Ticks of a program's clock in a second: a tick is 100 µs.
pub const TICKS_PER_SECOND: u64 = 10_000;

/// A worker notices only afterwards that its trace is too long, so the host allows this much more.
const OVERRUN_ALLOWANCE: u64 = 64 * 1024;

/// The host's view of an execution's trace: it bounds the bytes, refuses trace after the execution is marked
/// unrepeatable, and refuses a wait without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMonitor {
    left: u64,
    wait_query_pending: bool,
    is_unrepeatable: bool,
}

impl TraceMonitor {
    /// The monitor for an execution that starts with `given` bytes of trace.
    pub fn new(given: u64) -> Self {
        Self {
            left: (TRACE_CAP + OVERRUN_ALLOWANCE).saturating_sub(given),
            wait_query_pending: false,
            is_unrepeatable: false,
        }
    }

    /// Records a wait query that is about to be sent; false while one is pending, which then serves for both.
    pub fn begin_wait_query(&mut self) -> bool {
        !std::mem::replace(&mut self.wait_query_pending, true)
    }

    /// Checks a message from the child.
    pub fn on_message(&mut self, message: &FromChild) -> Result<(), ProtocolViolation> {
        match message {
            FromChild::Trace(piece) => self.count_bytes(piece.len()),
            FromChild::Call(call) => self.count_bytes(call.trace.len()),
            FromChild::Waits { .. } => {
                if !std::mem::take(&mut self.wait_query_pending) {
                    return Err(ProtocolViolation::Waits);
                }
                Ok(())
            }
            FromChild::Unrepeatable { .. } => {
                if std::mem::replace(&mut self.is_unrepeatable, true) {
                    return Err(ProtocolViolation::Unrepeatable);
                }
                Ok(())
            }
            FromChild::Ready
            | FromChild::Started
            | FromChild::Done(_)
            | FromChild::Open { .. }
            | FromChild::Emit(_) => Ok(()),
        }
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ProtocolViolation> {
        if bytes == 0 {
            return Ok(());
        }
        let left = self.left.checked_sub(bytes as u64).filter(|_| !self.is_unrepeatable);
        self.left = left.ok_or(ProtocolViolation::Trace { bytes })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
