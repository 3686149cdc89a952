//! Messages from a child to the host. All of them are claims: the host decides by what it observes itself.

use serde::{Deserialize, Serialize};

use crate::bounded::{BoundedBytes, BoundedList, BoundedText};
use crate::call::CallRequest;
use crate::codec::{ControlMessage, InvalidMessage};
use crate::emitted_file::EmittedFile;
use crate::frame::MAX_PAYLOAD;
use crate::trace::MAX_TRACE_PIECE;
use crate::tunnel::TunnelId;

const MAX_CODE: usize = 64;
const MAX_ERROR_MESSAGE: usize = 8 * 1024;
const MAX_ERROR_FILE: usize = 1024;
const MAX_DIAGNOSTIC_FILE: usize = 512;
const MAX_DIAGNOSTIC_MESSAGE: usize = 768;
const MAX_DIAGNOSTICS: usize = 32;
const MAX_UNREPEATABLE_REASON: usize = 256;

// An outcome must always fit a frame: a program must not be able to keep its own end from the host.
const _: () = {
    const fn text(bytes: usize) -> usize {
        3 + bytes
    }
    const NUMBER: usize = 5;
    const FAULT: usize = 1 + text(MAX_CODE) + text(MAX_ERROR_MESSAGE) + text(MAX_ERROR_FILE) + 2 * NUMBER + 1 + NUMBER;
    const DIAGNOSTIC: usize = text(MAX_DIAGNOSTIC_FILE) + text(MAX_CODE) + text(MAX_DIAGNOSTIC_MESSAGE) + 2 * NUMBER;
    const OUTCOME: usize = 2 + NUMBER + (1 + NUMBER) + 1 + FAULT + 1 + MAX_DIAGNOSTICS * DIAGNOSTIC;
    assert!(OUTCOME <= MAX_PAYLOAD, "an outcome could be too large to send");
};

/// A message from the child to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromChild {
    /// The child is confined and waits for the job.
    Ready,
    /// The child has the job and runs it from here on.
    Started,
    /// The job is over. Its streams may still be in flight, and each has its own end.
    Done(JobOutcome),
    /// The program makes a call.
    Call(CallRequest),
    /// The program has opened a connection, whose bytes travel on the stream of this number.
    Open {
        /// The number of the tunnel, which must not be in use.
        tunnel: TunnelId,
    },
    /// A piece of the trace, at least one byte, before the call, the wait or the end it belongs to.
    Trace(BoundedBytes<MAX_TRACE_PIECE>),
    /// The response to [`ToChild::Look`](crate::ToChild::Look): the program waits, and the host has all of its calls
    /// and its trace.
    Waits {
        /// How many calls are open.
        open: u32,
        /// When the program's next timer fires, in ticks of its clock; `None` if it has no timer.
        due: Option<u64>,
    },
    /// The execution cannot be run again, and no more trace follows. At most once.
    Unrepeatable {
        /// The reason, as a sentence.
        why: BoundedText<MAX_UNREPEATABLE_REASON>,
    },
    /// A file of the workspace goes out with the result, in its state at the end.
    Emit(EmittedFile),
}

impl ControlMessage for FromChild {
    const MAX_LIST_MEMORY: usize = MAX_DIAGNOSTICS * size_of::<SourceDiagnostic>();

    fn check(&self) -> Result<(), InvalidMessage> {
        match self {
            Self::Call(call) => call.body.check(),
            Self::Open { tunnel } => tunnel.check(),
            Self::Emit(emit) => emit.check(),
            Self::Trace(piece) if piece.is_empty() => Err(InvalidMessage::NoTrace),
            Self::Ready
            | Self::Started
            | Self::Done(_)
            | Self::Trace(_)
            | Self::Waits { .. }
            | Self::Unrepeatable { .. } => Ok(()),
        }
    }
}

/// How a job ended, as the child reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// The kind of the end, which the other fields detail.
    pub kind: JobOutcomeKind,
    /// The program's own exit code; 0 or 1 for code.
    pub exit_code: i32,
    /// The signal that ended the program; `None` if it exited.
    pub signal: Option<i32>,
    /// Whether [`PipeStream::Value`](crate::PipeStream::Value) carries a value.
    pub has_value: bool,
    /// The error that ended the job; `None` if there is nothing to add to the kind and the exit code.
    pub error: Option<JobFailure>,
    /// The problems found in the source, for a syntax error.
    pub diagnostics: BoundedList<SourceDiagnostic, MAX_DIAGNOSTICS>,
}

/// The ways in which a job can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobOutcomeKind {
    /// The program ran to its end, with exit code 0.
    Completed,
    /// The program threw an exception, or ended with an exit code other than 0.
    Failed,
    /// The program ran out of memory.
    OutOfMemory,
    /// There is no such program or interpreter.
    NoSuchProgram,
    /// The code imports a module that is not available to it.
    ImportRefused,
    /// The value has no form in JSON.
    NotJson,
    /// The source cannot be parsed or compiled.
    SyntaxError,
    /// The code waits for a promise that nothing will resolve.
    Stuck,
    /// The program stopped because it was told to.
    Cancelled,
    /// The program did something other than its trace says.
    Diverged,
}

/// The error that ended a job, and its place. It has neither rule nor hint: only the host adds those.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// A stable code, such as `program.failed`.
    pub code: BoundedText<MAX_CODE>,
    /// The error as a sentence for people.
    pub message: BoundedText<MAX_ERROR_MESSAGE>,
    /// The source file; empty if no place is known.
    pub file: BoundedText<MAX_ERROR_FILE>,
    /// The line, from 1; 0 if no place is known.
    pub line: u32,
    /// The column, from 1; 0 if no place is known.
    pub column: u32,
    /// The call whose failure the program did not catch. The host has the details of that failure.
    pub call: Option<u32>,
}

/// A problem found in the source before it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDiagnostic {
    /// The name of the source file.
    pub file: BoundedText<MAX_DIAGNOSTIC_FILE>,
    /// The line, from 1; 0 if no place is known.
    pub line: u32,
    /// The column, from 1; 0 if no place is known.
    pub column: u32,
    /// A stable code, such as `TS(1005)` or `syntax`.
    pub code: BoundedText<MAX_CODE>,
    /// The problem as a sentence for people.
    pub message: BoundedText<MAX_DIAGNOSTIC_MESSAGE>,
}

#[cfg(test)]
mod tests;
