//! Measures the cost of waiting for an approval: releasing a sandbox, resuming, the size on disk, recording every call.

mod engine;
mod many;
mod others;
mod release;
mod road;

pub use engine::{Resumed, Waiter};
pub use many::{Start, Weight, start, weigh};
pub use others::others;
pub use release::{Released, release};
pub use road::{Roads, roads};

/// Calls that a program has made before it waits.
pub const CALLS: usize = 100;
