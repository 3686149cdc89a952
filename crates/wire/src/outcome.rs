//! What a child says. All of it is a claim: the host decides by what it sees itself.

use serde::{Deserialize, Serialize};

use crate::bounded::{Bytes, List, Text};
use crate::call::Call;
use crate::codec::{Message, Unfit};
use crate::emit::Emit;
use crate::frame::MAX_PAYLOAD;
use crate::trace::TRACE_PIECE;
use crate::tunnel::TunnelId;

const CODE: usize = 64;
const FAULT_MESSAGE: usize = 8 * 1024;
const FAULT_FILE: usize = 1024;
const DIAGNOSTIC_FILE: usize = 512;
const DIAGNOSTIC_MESSAGE: usize = 768;
const DIAGNOSTICS: usize = 32;
const WHY: usize = 256;

// An outcome must always fit a frame: a program must not be able to keep its own end from being told.
const _: () = {
    const fn text(bytes: usize) -> usize {
        3 + bytes
    }
    const NUMBER: usize = 5;
    const FAULT: usize = 1 + text(CODE) + text(FAULT_MESSAGE) + text(FAULT_FILE) + 2 * NUMBER + 1 + NUMBER;
    const DIAGNOSTIC: usize = text(DIAGNOSTIC_FILE) + text(CODE) + text(DIAGNOSTIC_MESSAGE) + 2 * NUMBER;
    const OUTCOME: usize = 2 + NUMBER + (1 + NUMBER) + 1 + FAULT + 1 + DIAGNOSTICS * DIAGNOSTIC;
    assert!(OUTCOME <= MAX_PAYLOAD, "an outcome could be too large to send");
};

/// From the child to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromChild {
    /// The engine is warm and waits for the job.
    Ready,
    /// The job's first instruction comes next.
    Started,
    /// The job is over. Its streams may still be on their way, and each has an end of its own.
    Done(Outcome),
    /// The program wants something of the outside.
    Call(Call),
    /// The program has made a connection: what belongs to it comes on the stream of this number.
    Open {
        /// One that is not in use.
        tunnel: TunnelId,
    },
    /// A piece of the trace, before the call, the wait or the end it belongs to. At least one byte.
    Trace(Bytes<TRACE_PIECE>),
    /// The answer to [`ToChild::Look`](crate::ToChild::Look): the program waits, and all its calls and trace were sent.
    Waits {
        /// Calls without an answer.
        open: u32,
        /// When its next timer fires, in ticks of its clock.
        due: Option<u64>,
    },
    /// From here on it cannot be run again, and there is no more trace. At most once.
    Unrepeatable {
        /// What makes it so.
        why: Text<WHY>,
    },
    /// A file of the workspace is to go out with the result, as it is at the end.
    Emit(Emit),
}

impl Message for FromChild {
    const LISTS: usize = DIAGNOSTICS * size_of::<Diagnostic>();

    fn check(&self) -> Result<(), Unfit> {
        match self {
            Self::Call(call) => call.body.check(),
            Self::Open { tunnel } => tunnel.check(),
            Self::Emit(emit) => emit.check(),
            Self::Trace(piece) if piece.is_empty() => Err(Unfit::NoTrace),
            Self::Ready
            | Self::Started
            | Self::Done(_)
            | Self::Trace(_)
            | Self::Waits { .. }
            | Self::Unrepeatable { .. } => Ok(()),
        }
    }
}

/// How a job ended, as the child saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// In one word.
    pub kind: OutcomeKind,
    /// The program's own exit code; 0 or 1 for code.
    pub exit_code: i32,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Whether [`Stream::Value`](crate::Stream::Value) carries a value.
    pub has_value: bool,
    /// What went wrong.
    pub error: Option<Fault>,
    /// What was found in the source.
    pub diagnostics: List<Diagnostic, DIAGNOSTICS>,
}

/// How a job ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutcomeKind {
    /// It ran to its end.
    Completed,
    /// An exception, or an exit code that is not 0.
    Failed,
    /// The engine had no memory left.
    OutOfMemory,
    /// There is no such program or interpreter.
    NoSuchProgram,
    /// It imported what it may not.
    ImportRefused,
    /// Its value cannot be said in JSON.
    NotJson,
    /// The source is not a program.
    SyntaxError,
    /// It waits for a promise that nothing will resolve.
    Stuck,
    /// It was told to stop, and did.
    Cancelled,
    /// It did not do what its trace says it did before.
    Diverged,
}

/// What went wrong, and where. It has neither rule nor hint: those are the host's to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable name.
    pub code: Text<CODE>,
    /// A sentence.
    pub message: Text<FAULT_MESSAGE>,
    /// The file, or nothing.
    pub file: Text<FAULT_FILE>,
    /// From 1; 0 where no place is known.
    pub line: u32,
    /// From 1; 0 where no place is known.
    pub column: u32,
    /// The call whose refusal the program did not catch: the host knows what it said to that one.
    pub call: Option<u32>,
}

/// Something found in the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The file.
    pub file: Text<DIAGNOSTIC_FILE>,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// A stable name.
    pub code: Text<CODE>,
    /// A sentence.
    pub message: Text<DIAGNOSTIC_MESSAGE>,
}

#[cfg(test)]
mod tests;
