//! Tool calls from a confined program, beside the same calls from a bare client, in one run.

mod bare_clients;
mod call_path;
mod peers;
mod programs;

pub use bare_clients::{BareClient, DirectClient};
pub use call_path::{CallPath, TimedProgram};
pub use peers::measure_peers;
pub use programs::{PAGING_CALLS, calls_program, paging_program, workflow_program};

/// The names of the tool servers; both run the same program.
pub const SERVERS: [&str; 2] = ["echo", "records"];
