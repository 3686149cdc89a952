//! Tests of the public API: the pinned bytes of every message, and whole conversations over a slow transport.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test that calls them")]

mod conversation;
mod golden;
mod tunnels;
