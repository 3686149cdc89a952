//! The events of sessions: ids, the hash chain over the records, verification, and read-only views.
//!
//! An act whose event cannot be written does not happen: callers await [`Recorder::record`] before they act. Each session has one chain of
//! records; the heads of all chains form a second chain that is signed with a key kept outside the journal. Every event states whether the
//! host saw it or the sandbox claimed it; views use host events only.
//!
//! This crate knows nothing about storage, presentation or any async runtime.
#![forbid(unsafe_code)]

mod chain;
mod event;
mod head;
mod id;
mod outlet;
mod record;
mod text;
mod trace;
mod verify;
mod view;

pub use event::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, By, CallOutcome, Client, Enforcement, Event, EventError,
    FileIn, FileOut, Found, Kind, Limits, LossCause, MAX_EVENT_BYTES, Origin, Output, PolicyRef, PrunedSession,
    ServerPlace, Status, Stream, Target, Truncated, Usage, files_out, output_parts,
};
pub use id::{ApprovalId, ExecutionId, IdError, LeaseId, NoEntropy, Principal, SessionId, TokenId};
pub use outlet::{Delivery, Outlet, Undelivered};
pub use record::{Cause, Entry, EntryKind, KeepingRecorder, LOST_HINT, RecordError, Recorded, Recorder};
pub use text::Text;
/// Bytes that are wiped when they are dropped.
pub use zeroize::Zeroizing;

pub use chain::{Hash, HashError, Link, Record, genesis};
pub use head::{Head, HeadState, KeyError, Mark, PublicKey, SignedHead, Signer};
pub use trace::{Attribute, Span, SpanKind, Spans};
pub use verify::{AcceptedLoss, Broken, ChainCheck, ChainFault, HeadFault, HeadsCheck, Report, Verdict, verify};
pub use view::{
    CallSummary, EgressOutcome, EgressSummary, EnforcementSummary, ExecutionSummary, RepeatedSummary, SessionState,
    SessionSummary, Violation,
};
