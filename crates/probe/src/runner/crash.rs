//! The supervisor is killed during a run: nothing of its sandbox may live on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::probe_run::descendants;
use super::{ProbeError, ProbeJudgement, ProbeRunner};
use crate::attempt::ATTEMPT_ENTRY;
use crate::attempt::supervisor::SupervisorRemains;

const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// What existed before and after a supervisor's death.
struct CrashAftermath {
    processes: usize,
    survivors: usize,
    occupied: Vec<String>,
    mounts: Vec<String>,
}

pub(crate) async fn judge_crash(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    let exe = drive.exe.clone();
    let name = format!("ringfence-probe-{}-{id}", std::process::id());
    let seen = tokio::task::spawn_blocking(move || crash_supervisor(&exe, &name)).await;
    let after = match seen {
        Ok(Ok(after)) => after,
        Ok(Err(error)) => return Ok(ProbeJudgement::broken(format!("could not be tried: {error}"))),
        Err(_) => return Ok(ProbeJudgement::broken("could not be tried")),
    };
    let alive = (after.survivors > 0).then(|| format!("{} of {} processes live on", after.survivors, after.processes));
    if id == 86 {
        return Ok(ProbeJudgement::broken_if(
            alive,
            format!("{} processes died with it", after.processes),
        ));
    }
    let occupied =
        (!after.occupied.is_empty()).then(|| format!("occupied control groups: {}", after.occupied.join(", ")));
    let mounts = (!after.mounts.is_empty()).then(|| format!("mounts: {}", after.mounts.join(", ")));
    Ok(ProbeJudgement::broken_if(
        alive.or(occupied).or(mounts),
        "no process, no mount; its empty control groups wait for the sweep",
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor that is killed must be a process of its own"
)]
fn crash_supervisor(exe: &Path, name: &str) -> std::io::Result<CrashAftermath> {
    let mounts_before = fs::read_to_string("/proc/self/mountinfo")?;
    let mut command = Command::new(exe);
    command
        .args([ATTEMPT_ENTRY, "supervise", name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut supervisor = command.spawn()?;
    let estate = read_estate(&mut supervisor);
    let first = estate.as_ref().map_or(0, |estate| estate.first);
    let processes = if first > 0 {
        wait_for_processes(first)
    } else {
        Vec::new()
    };
    supervisor.kill()?;
    supervisor.wait()?;
    let estate = estate?;
    let survivors = wait_for_end(&processes);
    let occupied = estate
        .remains
        .iter()
        .filter(|folder| !is_group_empty(folder))
        .map(|folder| folder.display().to_string())
        .collect();
    for folder in &estate.remains {
        remove_groups(folder);
    }
    let mounts_after = fs::read_to_string("/proc/self/mountinfo")?;
    let mounts = mounts_after
        .lines()
        .filter(|line| !mounts_before.contains(line))
        .map(str::to_owned)
        .collect();
    Ok(CrashAftermath {
        processes: processes.len(),
        survivors,
        occupied,
        mounts,
    })
}

fn read_estate(supervisor: &mut std::process::Child) -> std::io::Result<SupervisorRemains> {
    let stdout = supervisor.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Waits for the sandbox's processes until its program has started all of its own: the script and three sleepers, below the
/// worker.
fn wait_for_processes(first: i32) -> Vec<i32> {
    const ALL: usize = 5;
    let started = Instant::now();
    loop {
        let found = descendants(first);
        if found.len() >= ALL || started.elapsed() > CLEANUP_TIMEOUT {
            return std::iter::once(first).chain(found).collect();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|text| text.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}

fn wait_for_end(processes: &[i32]) -> usize {
    let started = Instant::now();
    loop {
        let alive = processes.iter().filter(|pid| is_alive(**pid)).count();
        if alive == 0 || started.elapsed() > CLEANUP_TIMEOUT {
            return alive;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_group_empty(folder: &Path) -> bool {
    let own = ["cgroup.procs", "tasks"].iter().all(|name| {
        fs::read_to_string(folder.join(name)).is_ok_and(|list| list.is_empty()) || !folder.join(name).exists()
    });
    let below = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    own && below.into_iter().all(|entry| is_group_empty(&entry.path()))
}

/// Removes the empty groups of the supervisor that was killed here; nothing else knows their name.
fn remove_groups(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    // A group that is occupied was reported above.
    let _ = fs::remove_dir(folder);
}
