//! Integration tests of the store: one process, several processes, and damaged data.
#![expect(clippy::unwrap_used, reason = "helpers outside test functions may fail a test too")]

mod aliases;
mod approvals;
mod audit;
mod claims;
mod damage;
mod loss;
mod many;
mod process;
mod prune;
mod recordings;
mod remote;
mod sinks;
mod skills;
mod speed;
mod stop;
mod support;
mod sweep;
mod tamper;
mod workspaces;
