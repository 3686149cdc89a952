//! Makes and runs sandboxes.
//!
//! A [`Spec`] describes a sandbox, compiled from a policy; a [`Backend`] makes it; a [`Sandbox`] is a running one; a [`WarmPool`]
//! keeps some of them warm. This crate does not know tools, credentials, sessions or storage.
#![forbid(unsafe_code)]

mod backend;
mod budget;
mod call_exchange;
mod call_port;
mod clock;
mod control;
mod execution;
mod feed;
mod files;
pub mod folder;
mod follow;
mod interpreter;
mod issued_refusals;
mod pipe;
mod pool;
#[cfg(feature = "test-process")]
mod relay;
mod root;
mod sandbox;
mod scan;
mod spec;
mod streams;
mod suspend;
mod tree;
mod tunnel;
mod tunnels;
mod verdict;
mod worker;

pub use backend::{
    Backend, BackendKind, BackendLaunchError, BackendSupport, GroupLimit, WorkerProgram, choose_lasting_user,
    is_hard_by_nature, remove_group, remove_leftover_groups,
};
pub use budget::{
    Admission, AdmissionError, Budget, BudgetLimits, BudgetOverrides, BudgetRequest, MachineMemory, MemorySource,
    Shortage,
};
pub use call_port::{CallPort, ToolCall, ToolCallKind, ToolRefusal, ToolReply};
pub use execution::{
    ConcludedExecution, ExecutionError, ExecutionTask, NetworkAccess, OutputSink, ReplayState, StandardStream, Stop,
    TaskKind, fixed_stdin,
};
pub use feed::{NETWORK_PORT, NETWORK_TRUST};
pub use files::{
    CollectError, CollectLimits, CollectedFiles, CopyOutcome, ExistingFileAction, FileChange, FileContents, PutError,
    SkipCount, SkipReason, SkippedFiles, UncopiedFile, UncopiedFiles, Workspace, WorkspaceFile,
};
pub use pool::{PoolCounts, PoolError, WarmPool};
pub use ringfence_wire::{EmittedFile, JobFailure, JobLanguage, JobOutcome, JobOutcomeKind, SourceDiagnostic};
pub use sandbox::Sandbox;
pub use spec::{EnforcementMechanism, KeptPlace, RuleEnforcement, Spec, SpecError, SpecOptions};
pub use streams::{InputWriter, OutputReader, OutputStreams};
pub use tree::FolderUsage;
pub use tunnel::ProgramTunnel;
pub use verdict::{ExecutionLimit, MeasuredUsage, Verdict, Violation};
