//! Ends everything that an execution started, where the worker is not the first process of a namespace of its own and no
//! single signal reaches exactly that.

use std::fs;
use std::thread;
use std::time::Duration;

use ringfence_jail::inside::{self, WaitMode};

/// How long killed processes have until the next look.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Kills every process below this one and waits until none is left. What loses its parent meanwhile becomes a child of this
/// process, so the next look finds it.
pub(crate) fn kill_descendants() {
    loop {
        let mut waiting = children(std::process::id());
        while let Some(pid) = waiting.pop() {
            waiting.extend(children(pid));
            if let Ok(pid) = i32::try_from(pid) {
                // A process that has ended meanwhile needs no signal.
                let _ = inside::kill(pid);
            }
        }
        match inside::wait_for_child(-1, WaitMode::Now) {
            Ok(None) => thread::sleep(LOOK_INTERVAL),
            Ok(Some(_)) => {}
            // There is no child any more.
            Err(_) => return,
        }
    }
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}
