//! Tests of the egress proxy, against servers on public addresses of a network namespace per test.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests start themselves once more in a namespace of their own"
)]

mod client;
mod names;
mod rig;
mod world;

mod changes;
mod credentials;
mod ended;
mod hosts;
mod limits;
mod plain;
mod tunnels;
