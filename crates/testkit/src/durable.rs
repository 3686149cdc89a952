//! What it costs to wait for a person: giving up a sandbox, going on, staying on disk, keeping every call.

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
