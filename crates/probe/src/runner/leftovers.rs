//! What the host does after the end of a program that left as much as it could.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringfence_sandbox::{CollectLimits, ExistingFileAction};

use super::abuse::resident_bytes;
use super::probe_run::{CollectedOutput, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner};
use crate::report::ProbeOutcome;

const LEFTOVER_SCRIPT: &str = "for i in $(seq 250); do truncate -s 15M hole-$i; done; truncate -s 1T endless; \
                     for i in $(seq 2000); do : > entry-$i; done; \
                     d=.; for i in $(seq 100); do d=$d/d; done; mkdir -p $d; echo x > $d/x; echo ok > plain";
/// The quota of the workspace in bytes.
const WORKSPACE_QUOTA_BYTES: u64 = 16 << 20;
/// Longer than the host's own time limit, and far shorter than reading everything takes.
const MAX_CLEANUP_TIME: Duration = Duration::from_secs(30);

/// A place on disk has space for many more.
const LEAVE_ON_DISK: &str = "for i in $(seq 250); do truncate -s 15M hole-$i; done; \
                             i=0; while [ $i -lt 100000 ]; do : > entry-$i; i=$((i+1)); done; \
                             for i in $(seq 400); do mkdir d; cd d; done; echo x > x; echo left";
const QUOTA_ON_DISK: u64 = 512 << 20;
/// How much longer than their time limits a scan and a copy may take.
const SLACK: Duration = Duration::from_secs(5);
/// A time limit that is too short to copy all of it.
const COPYING: Duration = Duration::from_secs(2);
const MAX_GROWTH: u64 = 128 << 20;

pub(crate) async fn judge_leftovers(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let in_memory = Box::pin(little_room(drive)).await?;
    if in_memory.outcome != ProbeOutcome::Held {
        return Ok(in_memory);
    }
    let on_disk = Box::pin(much_room(drive)).await?;
    Ok(ProbeJudgement {
        outcome: on_disk.outcome,
        detail: format!("{}; on disk: {}", in_memory.detail, on_disk.detail),
    })
}

/// Judges a place on disk whose files are all copied out.
async fn much_room(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mounts = format!(
        "[{{ path: /workspace, access: rw, quota: {}MiB }}]",
        QUOTA_ON_DISK >> 20
    );
    let settings = [("fs.mounts", mounts.as_str()), ("proc.wall_timeout", "2m")];
    let mut sandbox = drive.launch_sandbox(&settings).await?;
    let shot = run_in_sandbox(&mut sandbox, shell_task(LEAVE_ON_DISK), &mut CollectedOutput::new()).await?;
    let workspace = sandbox.workspace()?;
    let limits = CollectLimits {
        holes: 1 << 20,
        ..workspace.limits()
    };
    let before = resident_bytes();
    let started = Instant::now();
    let collected = workspace.collect(&BTreeMap::new(), &drive.policy.fs().deny, &[], &limits)?;
    let looked = started.elapsed();
    let to = drive.stage.work.path().join("leftovers");
    let copied = workspace.copy_out(&collected.files, &to, ExistingFileAction::Overwrite, COPYING)?;
    let took = started.elapsed();
    let grown = resident_bytes().saturating_sub(before);
    sandbox.end().await?;
    let ended = started.elapsed().saturating_sub(took);
    let wrong = if !shot.stdout.contains("left") {
        Some(format!("could not be tried: {:?}", shot.ended.verdict))
    } else if looked > limits.time + SLACK || took > looked + COPYING + SLACK || ended > MAX_CLEANUP_TIME {
        Some(format!("the host was held up for {} ms", started.elapsed().as_millis()))
    } else if grown > MAX_GROWTH {
        Some(format!("the host grew by {grown} bytes"))
    } else if !collected.skipped.has_limit() {
        Some("nothing is said of what was left behind".to_owned())
    } else {
        None
    };
    let words = format!(
        "{} files looked at in {} ms, {} copied or named, all gone after {} ms more",
        collected.files.len(),
        looked.as_millis(),
        copied.len(),
        started.elapsed().saturating_sub(looked).as_millis()
    );
    Ok(ProbeJudgement::broken_if(wrong, words))
}

async fn little_room(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mounts = format!(
        "[{{ path: /workspace, access: rw, quota: {}MiB }}]",
        WORKSPACE_QUOTA_BYTES >> 20
    );
    let mut sandbox = drive.launch_sandbox(&[("fs.mounts", &mounts)]).await?;
    run_in_sandbox(&mut sandbox, shell_task(LEFTOVER_SCRIPT), &mut CollectedOutput::new()).await?;
    let workspace = sandbox.workspace()?;
    let limits = CollectLimits {
        // As in a place with little quota left for holes.
        holes: 1 << 20,
        ..workspace.limits()
    };
    let started = Instant::now();
    let collected = workspace.collect(&BTreeMap::new(), &drive.policy.fs().deny, &[], &limits)?;
    let took = started.elapsed();
    sandbox.end().await?;
    let read: u64 = collected.files.iter().map(|file| file.bytes).sum();
    let wrong = if took > MAX_CLEANUP_TIME {
        Some(format!("the host was held up for {} ms", took.as_millis()))
    } else if read > WORKSPACE_QUOTA_BYTES * 2 {
        Some(format!("{read} bytes were read"))
    } else if !collected.files.iter().any(|file| file.path.as_str() == "plain") {
        Some("the plain file did not come out".to_owned())
    } else if !collected.skipped.has_limit() {
        Some("nothing is said of what was left behind".to_owned())
    } else {
        None
    };
    let left = collected.skipped.total();
    Ok(ProbeJudgement::broken_if(
        wrong,
        format!(
            "{read} bytes read in {} ms, {left} left behind and named",
            took.as_millis()
        ),
    ))
}
