//! Makes and runs sandboxes.
//!
//! A [`Spec`] describes a sandbox, compiled from a policy; [`Native`] makes it; a [`Sandbox`] is a running one; a [`Pool`]
//! keeps some of them warm. This crate does not know tools, credentials, sessions or storage.
#![forbid(unsafe_code)]

mod budget;
mod clock;
mod control;
mod door;
mod exchange;
mod execution;
mod feed;
mod files;
pub mod folder;
mod follow;
mod hold;
mod interpreter;
mod issued;
mod locks;
mod native;
mod pinned;
mod pipe;
mod pool;
mod root;
mod running;
mod scan;
mod spec;
mod streams;
mod tree;
mod tunnel;
mod tunnels;
mod verdict;
mod watch;
mod worker;

pub use budget::{
    Admission, Budget, BudgetLimits, BudgetOverrides, BudgetRequest, MachineMemory, MemorySource, NoPlace, Shortage,
};
pub use door::{Answered, Ask, Asked, Door, Refusal};
pub use execution::{Again, Ended, Network, Output, RunError, Stop, Task, TaskKind, Words, known_stdin};
pub use feed::{NETWORK_PORT, NETWORK_TRUST};
pub use files::{
    Change, CollectError, CollectLimits, Collected, CopyOutcome, Existing, FileContents, FoundFile, LeftBehind,
    LeftFile, PutError, SkipCount, SkipReason, Skipped, Workspace,
};
pub use native::{
    LaunchError, Native, Support, WorkerProgram, is_hard_by_nature, lasting_user, remove_group, remove_remains,
};
pub use pool::{Pool, PoolCounts, TakeError};
pub use ringfence_wire::{Diagnostic, Emit, Fault, Language, Outcome, OutcomeKind};
pub use running::Sandbox;
pub use spec::{Enforced, KeptPlace, Mechanism, Options, Spec, SpecError};
pub use streams::{InputWriter, OutputReader, OutputStreams};
pub use tree::Held;
pub use tunnel::Tunnel;
pub use verdict::{Limit, Usage, Verdict, Violation};
