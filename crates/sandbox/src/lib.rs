//! A place to run a worker.
//!
//! A [`Spec`] says what the place is, compiled from a policy; [`Native`] makes it; a [`Sandbox`] is one that stands; a
//! [`Pool`] keeps some of them warm. This crate does not know tools, credentials, sessions or storage.
#![forbid(unsafe_code)]

mod clock;
mod control;
mod door;
mod exchange;
mod execution;
mod feed;
mod files;
mod follow;
mod interpreter;
mod native;
mod pipe;
mod pool;
mod root;
mod running;
mod scan;
mod spec;
mod tree;
mod tunnel;
mod tunnels;
mod verdict;
mod watch;
mod worker;

pub use door::{Answered, Ask, Asked, Door, Refusal};
pub use execution::{Ended, Network, Output, RunError, Stop, Task, TaskKind, Words};
pub use feed::NETWORK_PORT;
pub use files::{Change, CollectError, Collected, FoundFile, PutError};
pub use native::{LaunchError, Native, Support, WorkerProgram, remove_group, remove_remains};
pub use pool::{Pool, PoolCounts, TakeError};
pub use ringfence_wire::{Diagnostic, Fault, Language, Outcome, OutcomeKind};
pub use running::Sandbox;
pub use spec::{Enforced, Mechanism, Options, Spec, SpecError};
pub use tunnel::Tunnel;
pub use verdict::{Limit, Usage, Verdict, Violation};
