//! Resource hogs: each has a sandbox of its own with small limits, and is judged by what the host measured.

mod hogs;

use std::time::Duration;

use ringfence_sandbox::{ExecutionLimit, Verdict};

use super::probe_run::{CollectedOutput, ProbeRun, program_task, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner, error_chain, judge};
use crate::attempt::{ATTEMPT_ENTRY, AttemptLine};
use crate::report::ProbeOutcome;
use crate::stage::ATTACKER_PATH;
use hogs::{
    DESCRIPTORS, DISK, FEW_PROCESSES, FILES_ON_DISK, INODES, KERNEL_MEMORY, LITTLE_OUTPUT, MEMORY, NAMELESS_FILES,
    ONE_SECOND, OTHER_MEMORY, PROCESSES, ResourceHog, SMALL_WORKSPACE, THREADS,
};

/// The longest time from the deadline to the verdict.
pub(super) const MAX_LATENESS: Duration = Duration::from_millis(1500);

const ORPHAN_COUNT: usize = 300;

/// Makes a probe of this kind; `lines` are the reports of the attempts that already ran.
pub(crate) async fn judge_abuse(drive: &ProbeRunner<'_>, id: u16, lines: &[AttemptLine]) -> ProbeJudgement {
    let judged = match id {
        72 => judge_hogs(drive, PROCESSES).await,
        73 => judge_hogs(drive, THREADS).await,
        74 => judge_hogs(drive, MEMORY).await,
        75 => judge_hogs(drive, OTHER_MEMORY).await,
        76 => Box::pin(judge_disk(drive)).await,
        77 => judge_hogs(drive, INODES).await,
        78 => judge_deep_folders(drive).await,
        79 => judge_hogs(drive, DESCRIPTORS).await,
        80 | 81 => judge_floods(drive, id).await,
        82 => Box::pin(judge_endless_program(drive)).await,
        83 => judge_processors(drive).await,
        84 => judge_daemon(drive).await,
        169 => judge_hogs_on_disk(drive, NAMELESS_FILES).await,
        170 => judge_hogs_on_disk(drive, FILES_ON_DISK).await,
        _ => match KERNEL_MEMORY.iter().find(|(number, _)| *number == id) {
            Some((_, hog)) => judge_hog(drive, hog).await,
            None => judge_orphans(drive).await,
        },
    };
    let judged =
        judged.unwrap_or_else(|error| ProbeJudgement::broken(format!("could not be tried: {}", error_chain(&error))));
    let told: Vec<String> = lines
        .iter()
        .filter(|line| line.id == id)
        .filter_map(|line| judge::judge_line(line).err())
        .collect();
    if told.is_empty() {
        judged
    } else {
        ProbeJudgement::broken(format!("{}; {}", told.join("; "), judged.detail))
    }
}

/// The worst of several judgements, with the details of all that are equally bad.
fn worst_judgement(all: Vec<ProbeJudgement>) -> ProbeJudgement {
    let order = [ProbeOutcome::Broken, ProbeOutcome::Unenforceable, ProbeOutcome::Held];
    let outcome = order
        .into_iter()
        .find(|outcome| all.iter().any(|one| one.outcome == *outcome))
        .unwrap_or(ProbeOutcome::Broken);
    let details: Vec<String> = all
        .into_iter()
        .filter(|one| one.outcome == outcome)
        .map(|one| one.detail)
        .collect();
    ProbeJudgement {
        outcome,
        detail: details.join("; "),
    }
}

async fn judge_hogs(drive: &ProbeRunner<'_>, hogs: &[ResourceHog]) -> Result<ProbeJudgement, ProbeError> {
    let mut all = Vec::new();
    for hog in hogs {
        all.push(judge_hog(drive, hog).await?);
    }
    Ok(worst_judgement(all))
}

async fn judge_hog(drive: &ProbeRunner<'_>, hog: &ResourceHog) -> Result<ProbeJudgement, ProbeError> {
    let shot = drive.run_hog(hog.settings, hog.words).await?;
    Ok(judge_containment(hog, &shot))
}

/// Judges hogs in a kept workspace, which is a folder on disk.
async fn judge_hogs_on_disk(drive: &ProbeRunner<'_>, hogs: &[ResourceHog]) -> Result<ProbeJudgement, ProbeError> {
    let mut all = Vec::new();
    for hog in hogs {
        let kept = drive.stage.work.path().join(hog.part.replace(' ', "-"));
        let shot = drive.run_hog_on_disk(hog.settings, hog.words, kept).await?;
        all.push(judge_containment(hog, &shot));
    }
    Ok(worst_judgement(all))
}

fn judge_containment(hog: &ResourceHog, shot: &ProbeRun) -> ProbeJudgement {
    let part = hog.part;
    if shot.left > 0 {
        return ProbeJudgement::broken(format!("{part}: {} processes were left", shot.left));
    }
    match (shot.ended.verdict, shot.held_amount()) {
        (Verdict::Limit(limit), _) if Some(limit) == hog.limit => {
            ProbeJudgement::held(format!("{part}: {}", limit.code()))
        }
        (Verdict::Finished, Some(held)) if held <= hog.most => {
            ProbeJudgement::held(format!("{part}: refused after {held}"))
        }
        (Verdict::Finished, Some(held)) => ProbeJudgement::broken(format!("{part}: {held} of at most {}", hog.most)),
        // Without memory for its own few bytes a program ends as it can; it gained nothing by that.
        (Verdict::Finished, None)
            if hog.limit.is_some() && shot.ended.outcome.as_ref().is_some_and(|end| end.exit_code != 0) =>
        {
            ProbeJudgement::held(format!("{part}: ended by the want of it"))
        }
        (verdict, held) => ProbeJudgement::broken(format!("{part}: {verdict:?} with {held:?} held")),
    }
}

async fn judge_disk(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    const QUOTA: u64 = 8 << 20;
    let filled = judge_hogs(drive, DISK).await?;
    let mut sandbox = drive.launch_sandbox(&[SMALL_WORKSPACE]).await?;
    let words = [ATTEMPT_ENTRY, "hog", "sparse", "8", "8"].map(str::to_owned).to_vec();
    run_in_sandbox(
        &mut sandbox,
        program_task(ATTACKER_PATH, words),
        &mut CollectedOutput::new(),
    )
    .await?;
    // Nothing is copied: what would be copied out is what counts.
    let collected = super::orchestrator::collect_workspace(&sandbox, &drive.policy.fs().deny);
    sandbox.end().await?;
    let bytes: u64 = collected
        .map(|found| found.files.iter().map(|file| file.bytes).sum())
        .unwrap_or_default();
    let sparse = (bytes > QUOTA).then(|| format!("sparse files: {bytes} bytes would leave a place of {QUOTA}"));
    Ok(worst_judgement(vec![
        filled,
        ProbeJudgement::broken_if(sparse, "sparse files: no more than the quota leaves"),
    ]))
}

async fn judge_deep_folders(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let settings = [(
        "fs.mounts",
        r#"[{"path": "/workspace", "access": "rw", "quota": "64MiB"}]"#,
    )];
    let mut sandbox = drive.launch_sandbox(&settings).await?;
    let words = [ATTEMPT_ENTRY, "hog", "deep", "4096"].map(str::to_owned).to_vec();
    let shot = run_in_sandbox(
        &mut sandbox,
        program_task(ATTACKER_PATH, words),
        &mut CollectedOutput::new(),
    )
    .await?;
    let started = std::time::Instant::now();
    let collected = super::orchestrator::collect_workspace(&sandbox, &[]);
    sandbox.end().await?;
    let slow =
        (started.elapsed() > Duration::from_secs(5)).then(|| "taking files out or ending took too long".to_owned());
    let failed = collected.err().map(|error| error_chain(&error));
    let shallow = shot
        .held_amount()
        .is_none_or(|levels| levels < 1000)
        .then(|| format!("only {:?} levels were made", shot.held_amount()));
    Ok(ProbeJudgement::broken_if(
        failed.or(slow).or(shallow),
        format!("{} levels, taken down in time", shot.held_amount().unwrap_or_default()),
    ))
}

async fn judge_floods(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    const MAX_GROWTH_BYTES: u64 = 64 << 20;
    let before = resident_bytes();
    let task = if id == 80 {
        program_task(
            ATTACKER_PATH,
            [ATTEMPT_ENTRY, "hog", "flood", "256"].map(str::to_owned).to_vec(),
        )
    } else {
        shell_task(&format!(
            "exec 1>&-\nexec {ATTACKER_PATH} {ATTEMPT_ENTRY} hog complain 256\n"
        ))
    };
    let shot = drive.run_task(&[LITTLE_OUTPUT], task).await?;
    let grown = resident_bytes().saturating_sub(before);
    let verdict =
        (shot.ended.verdict != Verdict::Limit(ExecutionLimit::Output)).then(|| format!("{:?}", shot.ended.verdict));
    let kept = (shot.stdout.len() > 64 << 10).then(|| format!("{} bytes were kept", shot.stdout.len()));
    let grew = (grown > MAX_GROWTH_BYTES).then(|| format!("the supervisor grew by {grown} bytes"));
    Ok(ProbeJudgement::broken_if(
        verdict.or(kept).or(grew),
        "limit.output, and the supervisor did not grow",
    ))
}

/// The resident memory of this process, in bytes.
pub(super) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse::<u64>().ok())
        .unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

async fn judge_endless_program(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let settings = &[ONE_SECOND];
    let (sleep, busy, deaf, stopped, blocked) = tokio::join!(
        drive.run_task(settings, shell_task("sleep 60")),
        drive.run_task(settings, shell_task("while :; do :; done")),
        drive.run_task(
            settings,
            shell_task("trap '' TERM INT HUP QUIT\nsleep 60 & wait; sleep 60")
        ),
        drive.run_task(settings, shell_task("kill -STOP $$")),
        drive.run_hog(settings, &["blocked"]),
    );
    let mut all = Vec::new();
    for (name, shot) in [
        ("sleep", sleep?),
        ("busy", busy?),
        ("deaf", deaf?),
        ("stopped", stopped?),
        ("blocked", blocked?),
    ] {
        let on_time = shot.ended.verdict == Verdict::Limit(ExecutionLimit::Wall)
            && shot.took < Duration::from_secs(1) + MAX_LATENESS;
        let why = (!on_time || shot.left > 0).then(|| {
            format!(
                "{name}: {:?} after {} ms with {} processes left",
                shot.ended.verdict,
                shot.took.as_millis(),
                shot.left
            )
        });
        all.push(ProbeJudgement::broken_if(
            why,
            format!("{name}: limit.wall after {} ms", shot.took.as_millis()),
        ));
    }
    Ok(worst_judgement(all))
}

async fn judge_processors(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    const FOR_MILLISECONDS: usize = 1000;
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let rationed = drive.enforcing_mechanism("proc.cpu_quota") == "cgroup";
    if all == 1 && !rationed {
        return Ok(ProbeJudgement::unenforceable(
            "one processor, and no control group to ration it",
        ));
    }
    let quota = if all == 1 {
        ("proc.cpu_quota", "0.5")
    } else {
        ("proc.cpu_quota", "1")
    };
    let fair = if all == 1 {
        FOR_MILLISECONDS / 2
    } else {
        FOR_MILLISECONDS
    };
    if !rationed {
        // Without a processor limit in the group the number of processors is limited: it must stay so.
        let wider = drive.run_hog(&[quota], &["processors"]).await?;
        if wider.held_amount().is_none_or(|count| count > 1) {
            return Ok(ProbeJudgement::broken(format!(
                "it made itself run on {:?} processors instead of 1",
                wider.held_amount()
            )));
        }
    }
    let shot = drive.run_hog(&[quota], &["busy", "1000"]).await?;
    let got = shot.held_amount().unwrap_or(usize::MAX);
    let words = format!("{got} ms of processor time in {FOR_MILLISECONDS} ms, {fair} are its share");
    Ok(if got <= fair + fair * 2 / 5 {
        ProbeJudgement::held(words)
    } else {
        ProbeJudgement::broken(words)
    })
}

async fn judge_daemon(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let shot = drive.run_hog(&[], &["daemon"]).await?;
    let left = (shot.left > 0).then(|| format!("{} processes live on", shot.left));
    let failed = (shot.held_amount() != Some(1)).then(|| format!("no daemon was made: {:?}", shot.ended.verdict));
    Ok(ProbeJudgement::broken_if(
        left.or(failed),
        "nothing was left when the execution was over",
    ))
}

async fn judge_orphans(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let count = ORPHAN_COUNT.to_string();
    let shot = drive.run_hog(&[FEW_PROCESSES], &["orphans", &count]).await?;
    let why = (shot.held_amount() != Some(ORPHAN_COUNT))
        .then(|| format!("{:?} after {:?}", shot.ended.verdict, shot.held_amount()));
    Ok(ProbeJudgement::broken_if(
        why,
        format!("{ORPHAN_COUNT} orphans were reaped under a limit of 16 processes"),
    ))
}
