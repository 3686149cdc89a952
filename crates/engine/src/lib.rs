//! The use cases: open a session, run code in it, stop it, sweep after the dead.
//!
//! The one conductor: it knows the rooms (policy, sandbox, journal, store) and calls them in order. It has no algorithm of
//! its own, and knows neither MCP, HTTP and terminals above it nor SQL and system calls below it. Read [`run`] first.
#![forbid(unsafe_code)]

mod discover;
mod door;
mod engine;
mod execution;
mod guest;
pub mod kept;
mod outcome;
mod refusal;
mod report;
pub mod run;
mod sweep;
mod typed;
mod words;

pub use discover::{Discover, DiscoverError, notes, offers};
pub use engine::{Engine, OpenError, Settings};
pub use execution::{CallReport, ErrorReport, Execution, FileReport, TokenReport, ViolationReport};
pub use refusal::Refusal;
pub use ringfence_check::{Location, Tools};
pub use run::{Input, Program, RunCode, RunError};
pub use words::{Live, Stream};
