//! Tests of upstream servers: real ones, in both protocols, and hostile ones.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests start their servers and say what they skip"
)]

mod book;
mod data;
mod desk;
mod discovery;
mod harness;
mod hostile;
mod http;
mod keyring;
mod limits;
mod own;
mod pass;
mod real;
mod stdio;
mod tape;
mod unasked;
