//! After a crash: what belongs to no living process is removed, and that is written down. A neighbour's is untouched.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use ringfence_journal::{LeaseId, Principal, SessionState, Text};
use ringfence_sandbox::{folder, remove_remains};
use ringfence_store::{Removed, Resource, Retention, Store, SweepError, ago};

use crate::engine::Engine;
use crate::tidy::{throw_away, trash_of};

/// Lost sessions that are named in one line.
const NAMED: usize = 8;
/// How long the whole of what was cut is kept.
const RESULTS: Duration = Duration::from_hours(7 * 24);
/// How often a command looks for recordings that are too old, or too much.
const TRIM: Duration = Duration::from_hours(1);
/// Entries of folders that are removed while somebody waits for the sweep.
const MAX_REMOVED: u64 = 5_000;
/// Results that are removed in one sweep.
const LOOKED_AT: usize = 1024;

/// What the control groups of a process are called: found again by its lease even if it died before noting them.
pub(crate) fn group_name(lease: LeaseId) -> String {
    format!("ringfence-{lease}")
}

/// Sweeps after every process that is gone.
pub(crate) async fn after_the_dead(store: &Store) -> Result<(), SweepError> {
    for dead in store.dead_leases().await? {
        let (name, resources) = (group_name(dead.id()), dead.resources().to_vec());
        let trash = trash_of(store.home());
        // What programs left there decides how long it takes.
        let swept = tokio::task::spawn_blocking(move || sweep_resources(&name, &resources, &trash)).await;
        let Ok((cgroups, folders)) = swept else {
            // Its lease stays, so that the next sweep finds what it left.
            tracing::warn!(lease = %dead.id(), "sweeping after a process that is gone was not done to its end");
            continue;
        };
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
    forget_skills(store).await;
    Ok(())
}

/// Removes the whole of what was cut for commands, once it is old: a few at a time.
pub(crate) fn old_results(results: &Path) {
    let Ok(found) = fs::read_dir(results) else { return };
    let is_old = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > RESULTS))
    };
    for entry in found.flatten().filter(is_old).take(LOOKED_AT) {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(folder = %entry.path().display(), %error, "an old result could not be removed");
        }
    }
}

/// Forgets what past executions kept and is too old, or too much: a part of it, and only once in a while, for somebody waits.
pub(crate) async fn old_recordings(store: &Store) {
    let mark = store.home().join("run/trimmed");
    let changed = fs::metadata(&mark).and_then(|found| found.modified());
    if changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age < TRIM)) {
        return;
    }
    if let Err(error) = fs::write(&mark, "") {
        tracing::debug!(file = %mark.display(), %error, "the next command looks again");
    }
    if let Err(error) = store.trim_recordings(Retention::default(), Timestamp::now()).await {
        tracing::warn!(%error, "what past executions kept could not be trimmed");
    }
}

/// Removes a part of the records that were kept long enough, by the policy of the front door.
pub(crate) async fn old_records(engine: &Engine) {
    let Some(front) = &engine.settings.front else { return };
    let before = ago(front.policy.audit().keep);
    let owner = fs::metadata(&engine.settings.home).map_or(0, |data| data.uid());
    match engine.store.prune(before, Principal::Local(owner)).await {
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

/// Removes the groups and folders of a dead process; answers how many of each.
fn sweep_resources(name: &str, resources: &[Resource], trash: &Path) -> (u64, u64) {
    let (mut cgroups, mut folders) = (remove_remains(name), 0);
    let mut budget = MAX_REMOVED;
    for resource in resources {
        match resource {
            Resource::Cgroup { path } => cgroups += u64::from(remove_group(path)),
            Resource::Folder { path } => folders += u64::from(remove_folder(path, trash, &mut budget)),
            // A sandbox's processes end with the process that made them: the kernel sees to it.
            Resource::Process { .. } => {}
        }
    }
    (cgroups, folders)
}

/// What is too much to be removed now goes where it is removed a part at a time.
fn remove_folder(path: &Path, trash: &Path, budget: &mut u64) -> bool {
    let there = path.exists();
    let removed = folder::remove(path, budget).and_then(|is_gone| {
        if is_gone {
            return Ok(());
        }
        throw_away(path, trash)
    });
    if let Err(error) = &removed {
        tracing::warn!(folder = %path.display(), %error, "what a dead process left could not be removed");
    }
    there && removed.is_ok()
}

/// The skills of sessions that are over go with them; what cannot be removed now is tried at the next start.
async fn forget_skills(store: &Store) {
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
