//! Shared parts of tests and benchmarks: timing, peers to compare with, resource counts of this process and its sandboxes.
//!
//! The product never links this crate.
#![forbid(unsafe_code)]

#[cfg(feature = "sandboxes")]
pub mod calls;
#[cfg(feature = "sandboxes")]
pub mod conformance;
pub mod discovery;
#[cfg(all(feature = "sandboxes", feature = "waiting"))]
pub mod durable;
#[cfg(feature = "internet")]
pub mod egress;
pub mod front_clients;
pub mod front_door_bench;
pub mod hygiene;
#[cfg(feature = "internet")]
pub mod internet;
pub mod model;
pub mod peer;
pub mod peers;
pub mod resource_counts;
#[cfg(feature = "sandboxes")]
pub mod sandboxes;
pub mod timing;
pub mod upstream;
#[cfg(feature = "waiting")]
pub mod waiting;
