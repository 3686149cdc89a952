//! Crash recovery: removes what belongs to no living process, and records that. Resources of living processes are not touched.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use ringfence_journal::{CleanText, LeaseId, Principal, SessionState};
use ringfence_sandbox::{folder, remove_leftover_groups};
use ringfence_store::{LeasedResource, RecordingRetention, RemovedResources, Store, SweepError, retention_cutoff};

use crate::workspaces::gc::{move_to_trash, trash_folder};

/// Lost sessions that one log line names.
const MAX_NAMED_SESSIONS: usize = 8;
/// How long full output is kept.
const RESULT_RETENTION: Duration = Duration::from_hours(7 * 24);
/// How often a command trims recordings that are too old or too large.
const TRIM_INTERVAL: Duration = Duration::from_hours(1);
/// Folder entries that a sweep removes while a command waits for it.
const MAX_REMOVED_ENTRIES: u64 = 5_000;
/// Results that one sweep removes.
const MAX_REMOVED_RESULTS: usize = 1024;

/// The name of a process's control groups: its lease identifies them even if it died before it recorded them.
pub(crate) fn group_name(lease: LeaseId) -> String {
    format!("ringfence-{lease}")
}

/// Sweeps after every process that is gone. Behind a pointer: the code of a future is compiled again in every crate that waits for it.
pub(crate) fn sweep_dead_processes(store: &Store) -> BoxFuture<'_, Result<(), SweepError>> {
    Box::pin(sweep_dead_leases(store))
}

async fn sweep_dead_leases(store: &Store) -> Result<(), SweepError> {
    for dead in store.dead_leases().await? {
        let (name, resources) = (group_name(dead.id()), dead.resources().to_vec());
        let trash = trash_folder(store.home());
        // The programs of the process decide how long this takes.
        let swept = tokio::task::spawn_blocking(move || sweep_resources(&name, &resources, &trash)).await;
        let Ok((cgroups, folders)) = swept else {
            // The lease stays, so that the next sweep finds the rest.
            tracing::warn!(lease = %dead.id(), "sweeping after a process that is gone was not done to its end");
            continue;
        };
        let removed = [("cgroup", cgroups), ("folder", folders)];
        let removed: Vec<RemovedResources> = removed
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| RemovedResources {
                what: CleanText::clean(what),
                count,
            })
            .collect();
        let lost = store.finish_dead_lease(dead, &removed).await?;
        if !lost.is_empty() {
            let names: Vec<String> = lost.iter().take(MAX_NAMED_SESSIONS).map(ToString::to_string).collect();
            tracing::warn!(
                sessions = lost.len(),
                named = names.join(" "),
                "a process was gone in the middle of its work, and what it ran is lost: `ringfence session show ID` tells of it"
            );
        }
    }
    remove_orphan_skills(store).await;
    Ok(())
}

/// Removes old full output of commands, a few results at a time.
pub(crate) fn remove_old_results(results: &Path) {
    let Ok(found) = fs::read_dir(results) else { return };
    let is_old = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > RESULT_RETENTION))
    };
    for entry in found.flatten().filter(is_old).take(MAX_REMOVED_RESULTS) {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(folder = %entry.path().display(), %error, "an old result could not be removed");
        }
    }
}

/// Deletes a part of the recordings that are too old or too large; at most once per interval, because a command waits.
pub(crate) async fn trim_recordings(store: &Store) {
    let mark = store.home().join("run/trimmed");
    let changed = fs::metadata(&mark).and_then(|found| found.modified());
    if changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age < TRIM_INTERVAL)) {
        return;
    }
    if let Err(error) = fs::write(&mark, "") {
        tracing::debug!(file = %mark.display(), %error, "the next command looks again");
    }
    if let Err(error) = store
        .trim_recordings(RecordingRetention::default(), Timestamp::now())
        .await
    {
        tracing::warn!(%error, "what past executions kept could not be trimmed");
    }
}

/// Prunes a part of the records that are older than the front door's policy keeps them.
pub(crate) async fn prune_records(store: &Store, keep: Duration) {
    let before = retention_cutoff(keep);
    let owner = fs::metadata(store.home()).map_or(0, |data| data.uid());
    match store.prune(before, Principal::Local(owner)).await {
        Ok(pruned) if pruned.sessions > 0 => {
            tracing::info!(
                sessions = pruned.sessions,
                records = pruned.records,
                "old records were removed"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "old records could not be removed"),
    }
}

/// Removes the groups and folders of a dead process; returns how many of each.
fn sweep_resources(name: &str, resources: &[LeasedResource], trash: &Path) -> (u64, u64) {
    let (mut cgroups, mut folders) = (remove_leftover_groups(name), 0);
    let mut budget = MAX_REMOVED_ENTRIES;
    for resource in resources {
        match resource {
            LeasedResource::Cgroup { path } => cgroups += u64::from(remove_group(path)),
            LeasedResource::Folder { path } => folders += u64::from(remove_folder(path, trash, &mut budget)),
            // The kernel ends a sandbox's processes with the process that made them.
            LeasedResource::Process { .. } => {}
        }
    }
    (cgroups, folders)
}

/// Moves a folder that is too large to remove now to the trash, which is emptied in steps.
fn remove_folder(path: &Path, trash: &Path, budget: &mut u64) -> bool {
    let there = path.exists();
    let removed = folder::remove(path, budget).and_then(|is_gone| {
        if is_gone {
            return Ok(());
        }
        move_to_trash(path, trash)
    });
    if let Err(error) = &removed {
        tracing::warn!(folder = %path.display(), %error, "what a dead process left could not be removed");
    }
    there && removed.is_ok()
}

/// Removes the skills of sessions that are over; what cannot be removed is tried again at the next start.
async fn remove_orphan_skills(store: &Store) {
    let skills = store.skills();
    let sessions = match skills.sessions() {
        Ok(sessions) => sessions,
        Err(error) => return tracing::warn!(%error, "skills of sessions cannot be looked at"),
    };
    for id in sessions {
        let is_open = match store.session(id).await {
            Ok(session) => session.is_some_and(|session| session.state == SessionState::Open),
            Err(error) => return tracing::warn!(%error, "sessions cannot be looked at"),
        };
        if !is_open && let Err(error) = skills.forget_session(id) {
            tracing::warn!(%error, session = %id, "skills of a session could not be removed");
        }
    }
}

fn remove_group(path: &Path) -> bool {
    let there = path.exists();
    ringfence_sandbox::remove_group(path);
    there && !path.exists()
}
