//! The servers as a whole: real sandboxes, a real journal, real clients.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod approvals;
mod calls;
mod client;
mod discovery;
mod emit;
mod endpoint;
mod engine;
mod hostile;
mod owners;
mod runs;
mod setting;
mod skills;
mod tasks;
