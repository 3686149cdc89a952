//! The byte streams of an execution's pipe: which side sends which, how much may be in flight, and how much each may
//! carry in total.

use crate::call::MAX_BODY_BYTES;
use crate::trace::TRACE_CAP;

/// The most bytes of a stream that may be sent and not yet consumed by the receiver.
pub const STREAM_WINDOW: u32 = 256 * 1024;

/// The most bytes of program text in a job.
pub const SOURCE_CAP: u64 = 8 * 1024 * 1024;

/// The most bytes of a value as JSON text.
pub const VALUE_CAP: u64 = 16 * 1024 * 1024;

/// A stream of an execution's pipe. Numbers from 64 on belong to tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum PipeStream {
    /// The program text, then the input of its function, then the trace of an earlier run; host to child.
    Source = 1,
    /// The program's standard input, host to child.
    Stdin = 2,
    /// The program's standard output, child to host.
    Stdout = 3,
    /// The program's standard error, child to host.
    Stderr = 4,
    /// The program's value as JSON text, child to host.
    Value = 5,
    /// Long bodies of calls, one after the other, child to host.
    CallBodies = 6,
    /// Long bodies of responses, one after the other, host to child.
    ReplyBodies = 7,
}

impl PipeStream {
    /// Every stream, in the order of their numbers.
    pub const ALL: [Self; STREAM_COUNT] = [
        Self::Source,
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Value,
        Self::CallBodies,
        Self::ReplyBodies,
    ];

    /// The stream with this number, if there is one.
    pub fn from_id(id: u16) -> Option<Self> {
        match id {
            1 => Some(Self::Source),
            2 => Some(Self::Stdin),
            3 => Some(Self::Stdout),
            4 => Some(Self::Stderr),
            5 => Some(Self::Value),
            6 => Some(Self::CallBodies),
            7 => Some(Self::ReplyBodies),
            _ => None,
        }
    }

    /// The stream number in a frame header.
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// The side that sends this stream.
    pub const fn sender(self) -> PipeSide {
        match self {
            Self::Source | Self::Stdin | Self::ReplyBodies => PipeSide::Host,
            Self::Stdout | Self::Stderr | Self::Value | Self::CallBodies => PipeSide::Child,
        }
    }

    /// The default limit that a receiver sets on the whole stream. Output has none, because the host counts and
    /// truncates it; bodies have none, because each has its own.
    pub const fn cap(self) -> StreamCap {
        match self {
            Self::Source => StreamCap::Bytes(SOURCE_CAP + MAX_BODY_BYTES as u64 + TRACE_CAP),
            Self::Value => StreamCap::Bytes(VALUE_CAP),
            Self::Stdin | Self::Stdout | Self::Stderr | Self::CallBodies | Self::ReplyBodies => StreamCap::Unlimited,
        }
    }

    /// The stream's index in a table of all streams.
    pub(crate) const fn table_index(self) -> usize {
        self as usize - 1
    }
}

impl std::fmt::Display for PipeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Stdin => "stdin",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Value => "value",
            Self::CallBodies => "asked",
            Self::ReplyBodies => "answered",
        })
    }
}

/// How many streams there are.
pub(crate) const STREAM_COUNT: usize = 7;

/// One end of an execution's pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeSide {
    /// The host, which is outside the sandbox.
    Host,
    /// The process that runs the job.
    Child,
}

/// How many bytes a stream may carry in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCap {
    /// At most this many; one more is a protocol error.
    Bytes(u64),
    /// Any number: the receiver does its own counting.
    Unlimited,
}

/// A grant of more bytes on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCredit {
    /// The stream that the sender may continue.
    pub stream: PipeStream,
    /// How many more bytes it may send.
    pub grant: u32,
}
