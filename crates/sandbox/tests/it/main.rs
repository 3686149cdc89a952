//! The sandbox as its users see it: real jails, real programs, on this machine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod again;
mod calls;
mod files;
mod harness;
mod languages;
mod limits;
mod lives;
mod network;
