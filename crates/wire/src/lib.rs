//! The protocol between host and worker: frames, messages, versions, caps.
//!
//! Everything a worker sends is hostile until this crate has checked it. There are two conversations: commands and
//! reports with the sandbox's first process ([`WorkerCommand`], [`WorkerReport`]), and the pipe of one execution, which carries
//! messages ([`ToChild`], [`FromChild`]), the byte streams of [`PipeStream`], and tunnels that the child opens while a
//! program runs. Both consist of frames of at most 64 KiB. Control frames overtake streams, so [`FromChild::Done`] may
//! arrive before the last byte of output: an execution is over when the host has `Done` *and* the end of every stream.
//!
//! Where a sandbox has one stream for everything, a [`Relay`] at each end of it carries both conversations.
//!
//! This crate does no input or output of its own: [`Inbound`] takes bytes and yields [`InboundItem`]s, [`Outbound`] takes
//! messages and yields bytes. It knows nothing of transports, of policies or of what a program does.
#![forbid(unsafe_code)]

mod body_stream;
mod bounded;
mod call;
mod codec;
mod emitted_file;
mod error;
mod frame;
pub mod fuzz;
mod inbound;
mod job;
mod outbound;
mod outcome;
mod relay;
mod state;
mod stream;
mod stream_sender;
mod trace;
mod tunnel;
mod worker_command;

pub use body_stream::{BodyReceiver, BodySender};
pub use bounded::{BoundExceeded, BoundedBytes, BoundedList, BoundedText};
pub use call::{
    CallBody, CallFailure, CallReply, CallRequest, CallResponse, CallTarget, MAX_BODY_BYTES, MAX_INLINE_BODY,
    MAX_OPEN_CALLS,
};
pub use codec::{ControlMessage, InvalidMessage, MessageError, decode, encode_frame};
pub use emitted_file::{EmitQuota, EmittedFile, MAX_EMITTED_FILES};
pub use error::ProtocolError;
pub use frame::{FrameHeader, FrameHeaderError, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
pub use inbound::{Inbound, InboundItem};
pub use job::{
    Job, JobArguments, JobEnvironment, JobKind, JobLanguage, MAX_ARGUMENTS_BYTES, MAX_TRUST_BYTES, NetworkProxy,
    PROTOCOL_VERSION, StdinMode, ToChild,
};
pub use outbound::{CONTROL_QUEUE_CAPACITY, Outbound, OutboundError};
pub use outcome::{FromChild, JobFailure, JobOutcome, JobOutcomeKind, SourceDiagnostic};
pub use relay::{RELAY_WINDOW, Relay, RelayError};
pub use state::{ChildState, OpenCalls, PendingCommands, ProtocolViolation};
pub use stream::{PipeSide, PipeStream, SOURCE_CAP, STREAM_WINDOW, StreamCap, StreamCredit, VALUE_CAP};
pub use trace::{MAX_INLINE_TRACE, MAX_TRACE_PIECE, TICKS_PER_SECOND, TRACE_CAP, TraceMonitor};
pub use tunnel::{MAX_TUNNELS, TunnelError, TunnelEvent, TunnelId, TunnelReceivers, TunnelSenders};
pub use worker_command::{ChildLimits, FailureReason, PrepareCommand, WorkerCommand, WorkerReport};
