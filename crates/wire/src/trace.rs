//! The host's checks on an execution's trace: the record with which code can be run again. Only the worker reads the
//! content; this module bounds how much of it may come, and when.

use crate::outcome::FromChild;
use crate::turn::OutOfTurn;

/// The most bytes of trace of one execution, over all its runs.
pub const TRACE_CAP: u64 = 4 * 1024 * 1024;

/// The most bytes of trace in the message of a call.
pub const TRACE_INLINE: usize = 4 * 1024;

/// The most bytes of trace in a message of its own.
pub const TRACE_PIECE: usize = 32 * 1024;

/// Ticks of a program's clock in a second: a tick is 100 µs.
pub const TICKS_PER_SECOND: u64 = 10_000;

/// A worker notices only afterwards that its trace is too long, so the host allows this much more.
const SLACK: u64 = 64 * 1024;

/// The host's view of an execution's trace: it bounds the bytes, refuses trace after the execution is marked
/// unrepeatable, and refuses a wait without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    left: u64,
    looking: bool,
    given_up: bool,
}

impl Tracing {
    /// The monitor for an execution that starts with `given` bytes of trace.
    pub fn new(given: u64) -> Self {
        Self {
            left: (TRACE_CAP + SLACK).saturating_sub(given),
            looking: false,
            given_up: false,
        }
    }

    /// Records a wait query that is about to be sent; false while one is pending, which then serves for both.
    pub fn look(&mut self) -> bool {
        !std::mem::replace(&mut self.looking, true)
    }

    /// Checks a message from the child.
    pub fn hear(&mut self, message: &FromChild) -> Result<(), OutOfTurn> {
        match message {
            FromChild::Trace(piece) => self.book(piece.len()),
            FromChild::Call(call) => self.book(call.trace.len()),
            FromChild::Waits { .. } => {
                if !std::mem::take(&mut self.looking) {
                    return Err(OutOfTurn::Waits);
                }
                Ok(())
            }
            FromChild::Unrepeatable { .. } => {
                if std::mem::replace(&mut self.given_up, true) {
                    return Err(OutOfTurn::Unrepeatable);
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

    fn book(&mut self, bytes: usize) -> Result<(), OutOfTurn> {
        if bytes == 0 {
            return Ok(());
        }
        let left = self.left.checked_sub(bytes as u64).filter(|_| !self.given_up);
        self.left = left.ok_or(OutOfTurn::Trace { bytes })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
