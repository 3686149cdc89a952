//! The use cases: open a session, run code in it, stop it, sweep after the dead.
//!
//! The one conductor: it knows the rooms (policy, sandbox, journal, store) and calls them in order. It has no algorithm of
//! its own, and knows neither MCP, HTTP and terminals above it nor SQL and system calls below it. Read [`run`] first.
#![forbid(unsafe_code)]

mod ask;
mod direct;
mod discover;
mod door;
mod engine;
mod error;
mod execution;
mod front;
mod guest;
pub mod kept;
mod network;
mod outcome;
mod record;
mod refusal;
mod report;
mod request;
mod rules;
pub mod run;
mod runs;
mod session;
mod sinks;
mod stay;
mod sweep;
mod switch;
mod typed;
mod words;

pub use ask::{Ask, Front, Trace};

pub use direct::{DirectTool, ToolCall};
pub use discover::{Discover, DiscoverError, notes, offers};
pub use engine::{Engine, OpenError, Settings};
pub use error::RunError;
pub use execution::{CallReport, ErrorReport, Execution, FileReport, TokenReport, ViolationReport};
pub use refusal::Refusal;
pub use request::{Input, Out, Program, RunCode, Source};
pub use ringfence_check::{Location, Tools};
pub use ringfence_sandbox::{Language, PoolCounts};
pub use rules::{ChangeError, Changed};
pub use runs::{Ending, Part, Progress, Running, WaitError};
pub use sinks::Sink;
pub use words::{Live, Stream};
