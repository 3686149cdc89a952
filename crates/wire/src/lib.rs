//! The protocol between host and worker: frames, messages, versions, caps.
//!
//! Everything a worker sends is hostile until this crate has checked it. There are two conversations: commands and
//! reports with the sandbox's first process ([`Order`], [`Report`]), and the pipe of one execution, which carries
//! messages ([`ToChild`], [`FromChild`]), the byte streams of [`Stream`], and tunnels that the child opens while a
//! program runs. Both consist of frames of at most 64 KiB. Control frames overtake streams, so [`FromChild::Done`] may
//! arrive before the last byte of output: an execution is over when the host has `Done` *and* the end of every stream.
//!
//! This crate does no input or output of its own: [`Inbound`] takes bytes and yields [`Item`]s, [`Outbound`] takes
//! messages and yields bytes. It knows nothing of transports, of policies or of what a program does.
#![forbid(unsafe_code)]

mod bodies;
mod bounded;
mod call;
mod codec;
mod emit;
mod error;
mod frame;
pub mod fuzz;
mod inbound;
mod job;
mod order;
mod outbound;
mod outcome;
mod sending;
mod stream;
mod trace;
mod tunnel;
mod turn;

pub use bodies::{Bodies, Letters};
pub use bounded::{Bytes, List, Text, TooLong};
pub use call::{Answer, Ask, BODY_CAP, Body, CALLS_MAX, Call, INLINE_MAX, Refusal, Return};
pub use codec::{Message, MessageError, Unfit, decode, encode_frame};
pub use emit::{EMITS_MAX, Emit, Emits};
pub use error::ProtocolError;
pub use frame::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD};
pub use inbound::{Inbound, Item};
pub use job::{
    ARGUMENTS_MAX, Arguments, Environment, Job, JobKind, Language, Network, StdinMode, TRUST_MAX, ToChild, VERSION,
};
pub use order::{ChildLimits, Order, Preparation, Reason, Report};
pub use outbound::{CONTROL_QUEUE, Outbound, SendError};
pub use outcome::{Diagnostic, Fault, FromChild, Outcome, OutcomeKind};
pub use stream::{Cap, Credit, SOURCE_CAP, Side, Stream, VALUE_CAP, WINDOW};
pub use trace::{TICKS_PER_SECOND, TRACE_CAP, TRACE_INLINE, TRACE_PIECE, Tracing};
pub use tunnel::{Arriving, Carried, Leaving, TUNNELS_MAX, TunnelError, TunnelId};
pub use turn::{Calls, ChildTurn, Orders, OutOfTurn};
