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
mod external_sink;
mod head;
mod id;
mod record;
mod text;
mod trace;
mod verify;
mod view;

pub use event::{
    ApprovalAnswer, ApprovalScope, ApprovalVia, AskReason, CallOutcome, ClientClaims, DetectionCount, EgressTarget,
    EnforcedBy, Enforcement, Event, EventError, EventKind, EventOrigin, ExecutionStatus, FileIn, FileOut, LossCause,
    MAX_EVENT_BYTES, OutputHead, OutputStream, PolicyRef, PrunedSession, RecordedLimits, ResourceUsage, ServerPlace,
    TruncationFlags, files_out_events, fixed_time, output_events, time_text,
};
pub use external_sink::{DeliveryFailure, DeliveryFuture, ExternalSink};
pub use id::{ApprovalId, ExecutionId, IdError, LeaseId, NoEntropy, Principal, SessionId, TokenId};
pub use record::{
    LOST_HINT, RecordError, RecordPosition, Recorder, ReplayEntry, ReplayEntryKind, ReplayRecorder, SharedCause,
};
pub use text::CleanText;
/// Bytes that are wiped when they are dropped.
pub use zeroize::Zeroizing;

pub use chain::{ChainTip, ContentHash, ContentHashError, Record, genesis_hash};
pub use head::{ChainHead, HeadMark, HeadSigner, HeadState, KeyError, PublicKey, SignedHead};
pub use trace::{SpanAttribute, SpanBuilder, SpanKind, TraceSpan};
pub use verify::{
    AcceptedLoss, BrokenLink, ChainFault, ChainVerifier, HeadFault, HeadVerifier, SessionVerification,
    VerificationReport, verify_journal,
};
pub use view::{
    CallSummary, EgressOutcome, EgressSummary, EnforcementSummary, ExecutionSummary, RepeatedSummary, SessionState,
    SessionSummary, ViolationSummary,
};
