//! What the host hears of an execution's trace: the record by which code can be run again. What is in it is for the worker
//! alone; how much of it there may be, and when, is checked here.

use crate::outcome::FromChild;
use crate::turn::OutOfTurn;

/// The most bytes of trace of one execution, however often it is run again.
pub const TRACE_CAP: u64 = 4 * 1024 * 1024;

/// The most bytes of trace that travel in the message of a call.
pub const TRACE_INLINE: usize = 4 * 1024;

/// The most bytes of trace that travel in a message of their own.
pub const TRACE_PIECE: usize = 32 * 1024;

/// A program's clock counts in 100 µs.
pub const TICKS_PER_SECOND: u64 = 10_000;

/// A worker notices only afterwards that its trace is too long.
const SLACK: u64 = 64 * 1024;

/// The host's view of an execution's trace: bounded, nothing after it was given up, a wait told only when asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    left: u64,
    looking: bool,
    given_up: bool,
}

impl Tracing {
    /// Of an execution that was given so many bytes of trace.
    pub fn new(given: u64) -> Self {
        Self {
            left: (TRACE_CAP + SLACK).saturating_sub(given),
            looking: false,
            given_up: false,
        }
    }

    /// A look is about to be sent; false while one is unanswered, which will do.
    pub fn look(&mut self) -> bool {
        !std::mem::replace(&mut self.looking, true)
    }

    /// The child said something.
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
