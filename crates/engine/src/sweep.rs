//! After a crash: what belongs to no living process is removed, and that is written down. A neighbour's is untouched.

use std::fs;
use std::path::Path;

use ringfence_journal::{LeaseId, Text};
use ringfence_sandbox::remove_remains;
use ringfence_store::{Removed, Resource, Store, SweepError};

/// Lost sessions that are named in one line.
const NAMED: usize = 8;

/// What the control groups of a process are called: found again by its lease even if it died before noting them.
pub(crate) fn group_name(lease: LeaseId) -> String {
    format!("ringfence-{lease}")
}

/// Sweeps after every process that is gone.
pub(crate) async fn after_the_dead(store: &Store) -> Result<(), SweepError> {
    for dead in store.dead_leases().await? {
        let mut cgroups = remove_remains(&group_name(dead.id()));
        let mut folders = 0;
        for resource in dead.resources() {
            match resource {
                Resource::Cgroup { path } => cgroups += u64::from(remove_group(path)),
                Resource::Folder { path } => folders += u64::from(fs::remove_dir_all(path).is_ok()),
                // A sandbox's processes end with the process that made them: the kernel sees to it.
                Resource::Process { .. } => {}
            }
        }
        let removed = [("cgroup", cgroups), ("folder", folders)];
        let removed: Vec<Removed> = removed
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| Removed {
                what: Text::clean(what),
                count,
            })
            .collect();
        let lost = store.bury(dead, &removed).await?;
        if !lost.is_empty() {
            let names: Vec<String> = lost.iter().take(NAMED).map(ToString::to_string).collect();
            tracing::warn!(
                sessions = lost.len(),
                named = names.join(" "),
                "a process was gone in the middle of its work, and what it ran is lost: `ringfence session show ID` tells of it"
            );
        }
    }
    Ok(())
}

fn remove_group(path: &Path) -> bool {
    let there = path.exists();
    ringfence_sandbox::remove_group(path);
    there && !path.exists()
}
