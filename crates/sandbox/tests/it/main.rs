//! The sandbox as its users see it: real jails, real programs, on this machine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod again;
mod calls;
mod files;
mod harness;
mod hiding;
mod languages;
mod limits;
mod lives;
mod memory;
mod network;
