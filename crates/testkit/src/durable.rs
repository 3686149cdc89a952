//! Measures the cost of waiting for an approval: releasing a sandbox, resuming, the size on disk, recording every call.

mod call_cost;
mod engine;
mod many_waiting;
mod peers;
mod release;

pub use call_cost::{CallCosts, measure_call_costs};
pub use engine::{ResumeTimes, WaitingEngine};
pub use many_waiting::{StartupTimes, WaitingSize, measure_size, measure_startup};
pub use peers::measure_peers;
pub use release::{ReleaseTimes, measure_release};

/// Calls that a program has made before it waits.
pub const CALLS: usize = 100;
