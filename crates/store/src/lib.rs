//! Keeps journals, sessions, leases and access tokens, in one folder that several processes share.
//!
//! One writer per process takes whatever waits, gives each event its number and hash, commits
//! once and answers all. A session's chain is written by the one process whose lease owns it;
//! the chain of heads is appended inside the transaction that holds the database's write lock,
//! so neither can fork.
//!
//! It does not know what a policy means, sandboxes, or who asks.
#![forbid(unsafe_code)]

mod audit;
mod check;
mod database;
mod execution;
mod home;
mod lease;
mod open;
mod session;
mod sink;
mod stop;
mod sweep;
mod token;
mod writer;

pub use execution::Executions;
pub use open::{OpenError, Store};
pub use session::{AdoptError, Execution, Opening, Session, Sessions};

pub use lease::{DeadLease, Holder, Lease, LeaseError, Resource};
pub use stop::{Owner, Stop, Stops, Target};
pub use sweep::{Removed, SweepError};
pub use token::{AccessToken, Scope, Secret, TokenError};

pub use audit::{Contents, ExportError, Numbered, Tail};
pub use database::ReadError;
pub use sink::{Missed, Remote, Sink, SinkError};
