//! What only a jail gives: its root, its user, its namespaces, its control groups.

mod files;
mod hiding;
mod limits;
mod lives;
mod memory;
mod network;

use ringfence_sandbox::{Backend, BackendKind, ExecutionTask};

use crate::harness::{self, Ran};

/// A backend that makes jails, whichever one the other tests run with.
fn backend() -> Backend {
    harness::backend_of(BackendKind::default())
}

async fn run(task: ExecutionTask, settings: &[(&str, &str)]) -> Ran {
    harness::run_on(&backend(), task, settings).await
}
