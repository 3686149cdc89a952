//! Tool calls from a confined program, beside the same calls from a bare client, in one run.

mod bare;
mod others;
mod programs;
mod road;

pub use bare::{Bare, Direct};
pub use others::others;
pub use programs::{PAGES, calls, paging, workflow};
pub use road::{Ran, Road};

/// The names of the tool servers; both run the same program.
pub const SERVERS: [&str; 2] = ["echo", "records"];
