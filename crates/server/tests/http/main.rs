//! The HTTP server from outside: raw bytes over loopback, real sandboxes, a real journal.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod access;
mod api;
mod approvals;
mod contract;
mod ending;
#[path = "../it/engine.rs"]
mod engine;
mod events;
mod greed;
mod leftovers;
mod live;
mod once;
mod rules;
mod skills;
mod wire;
mod world;
