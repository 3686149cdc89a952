//! What tests and benchmarks share: timing, peers to compare with, looks at this process and its sandboxes.
//!
//! Never linked by the product.
#![forbid(unsafe_code)]

#[cfg(feature = "sandboxes")]
pub mod calls;
#[cfg(feature = "sandboxes")]
pub mod conformance;
pub mod discovery;
pub mod doors;
#[cfg(feature = "internet")]
pub mod egress;
pub mod front;
#[cfg(feature = "internet")]
pub mod internet;
pub mod model;
pub mod peer;
pub mod peers;
#[cfg(feature = "sandboxes")]
pub mod sandboxes;
pub mod timing;
pub mod traces;
pub mod upstream;
