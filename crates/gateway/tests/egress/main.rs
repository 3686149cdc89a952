//! The way out to the network, against servers on public addresses of a network namespace that each test has to itself.
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
mod ended;
mod hosts;
mod limits;
mod plain;
mod tunnels;
