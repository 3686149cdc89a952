//! Resource hogs: each has a sandbox of its own with small limits, and is judged by what the host measured.

mod hogs;

use std::time::Duration;

use ringfence_sandbox::{Limit, Verdict};

use super::shot::{Kept, Shot, program, run_in, shell};
use super::{Drive, Judged, ProbeError, chain, judge};
use crate::attempt::{ENTRY, Line};
use crate::report::Outcome;
use crate::stage::PROGRAM;
use hogs::{
    DESCRIPTORS, DISK, FEW_PROCESSES, FILES_ON_DISK, Hog, INODES, KERNEL_MEMORY, LITTLE_OUTPUT, MEMORY, NAMELESS_FILES,
    ONE_SECOND, OTHER_MEMORY, PROCESSES, SMALL_WORKSPACE, THREADS,
};

/// The longest time from the deadline to the verdict.
pub(super) const LATE: Duration = Duration::from_millis(1500);

const ORPHANS: usize = 300;

/// Makes a probe of this kind; `lines` are the reports of the attempts that already ran.
pub(crate) async fn probe(drive: &Drive<'_>, id: u16, lines: &[Line]) -> Judged {
    let judged = match id {
        72 => hogs(drive, PROCESSES).await,
        73 => hogs(drive, THREADS).await,
        74 => hogs(drive, MEMORY).await,
        75 => hogs(drive, OTHER_MEMORY).await,
        76 => Box::pin(disk(drive)).await,
        77 => hogs(drive, INODES).await,
        78 => deep(drive).await,
        79 => hogs(drive, DESCRIPTORS).await,
        80 | 81 => floods(drive, id).await,
        82 => Box::pin(never_end(drive)).await,
        83 => processors(drive).await,
        84 => daemon(drive).await,
        169 => hogs_on_disk(drive, NAMELESS_FILES).await,
        170 => hogs_on_disk(drive, FILES_ON_DISK).await,
        _ => match KERNEL_MEMORY.iter().find(|(number, _)| *number == id) {
            Some((_, hog)) => one(drive, hog).await,
            None => orphans(drive).await,
        },
    };
    let judged = judged.unwrap_or_else(|error| Judged::broken(format!("could not be tried: {}", chain(&error))));
    let told: Vec<String> = lines
        .iter()
        .filter(|line| line.id == id)
        .filter_map(|line| judge::judge(line).err())
        .collect();
    if told.is_empty() {
        judged
    } else {
        Judged::broken(format!("{}; {}", told.join("; "), judged.detail))
    }
}

/// The worst of several judgements, with the details of all that are equally bad.
fn worst(all: Vec<Judged>) -> Judged {
    let order = [Outcome::Broken, Outcome::Unenforceable, Outcome::Held];
    let outcome = order
        .into_iter()
        .find(|outcome| all.iter().any(|one| one.outcome == *outcome))
        .unwrap_or(Outcome::Broken);
    let details: Vec<String> = all
        .into_iter()
        .filter(|one| one.outcome == outcome)
        .map(|one| one.detail)
        .collect();
    Judged {
        outcome,
        detail: details.join("; "),
    }
}

async fn hogs(drive: &Drive<'_>, hogs: &[Hog]) -> Result<Judged, ProbeError> {
    let mut all = Vec::new();
    for hog in hogs {
        all.push(one(drive, hog).await?);
    }
    Ok(worst(all))
}

async fn one(drive: &Drive<'_>, hog: &Hog) -> Result<Judged, ProbeError> {
    let shot = drive.hog(hog.settings, hog.words).await?;
    Ok(contained(hog, &shot))
}

/// Judges hogs in a kept workspace, which is a folder on disk.
async fn hogs_on_disk(drive: &Drive<'_>, hogs: &[Hog]) -> Result<Judged, ProbeError> {
    let mut all = Vec::new();
    for hog in hogs {
        let kept = drive.stage.work.path().join(hog.part.replace(' ', "-"));
        let shot = drive.hog_on_disk(hog.settings, hog.words, kept).await?;
        all.push(contained(hog, &shot));
    }
    Ok(worst(all))
}

fn contained(hog: &Hog, shot: &Shot) -> Judged {
    let part = hog.part;
    if shot.left > 0 {
        return Judged::broken(format!("{part}: {} processes were left", shot.left));
    }
    match (shot.ended.verdict, shot.held()) {
        (Verdict::Limit(limit), _) if Some(limit) == hog.limit => Judged::held(format!("{part}: {}", limit.code())),
        (Verdict::Finished, Some(held)) if held <= hog.most => Judged::held(format!("{part}: refused after {held}")),
        (Verdict::Finished, Some(held)) => Judged::broken(format!("{part}: {held} of at most {}", hog.most)),
        // Without memory for its own few bytes a program ends as it can; it gained nothing by that.
        (Verdict::Finished, None)
            if hog.limit.is_some() && shot.ended.outcome.as_ref().is_some_and(|end| end.exit_code != 0) =>
        {
            Judged::held(format!("{part}: ended by the want of it"))
        }
        (verdict, held) => Judged::broken(format!("{part}: {verdict:?} with {held:?} held")),
    }
}

async fn disk(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    const QUOTA: u64 = 8 << 20;
    let filled = hogs(drive, DISK).await?;
    let mut sandbox = drive.launch(&[SMALL_WORKSPACE]).await?;
    let words = [ENTRY, "hog", "sparse", "8", "8"].map(str::to_owned).to_vec();
    run_in(&mut sandbox, program(PROGRAM, words), &mut Kept::new()).await?;
    // Nothing is copied: what would be copied out is what counts.
    let collected = super::orchestrator::look(&sandbox, &drive.policy.fs().deny);
    sandbox.end().await?;
    let bytes: u64 = collected
        .map(|found| found.files.iter().map(|file| file.bytes).sum())
        .unwrap_or_default();
    let sparse = (bytes > QUOTA).then(|| format!("sparse files: {bytes} bytes would leave a place of {QUOTA}"));
    Ok(worst(vec![
        filled,
        Judged::unless(sparse, "sparse files: no more than the quota leaves"),
    ]))
}

async fn deep(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let settings = [(
        "fs.mounts",
        r#"[{"path": "/workspace", "access": "rw", "quota": "64MiB"}]"#,
    )];
    let mut sandbox = drive.launch(&settings).await?;
    let words = [ENTRY, "hog", "deep", "4096"].map(str::to_owned).to_vec();
    let shot = run_in(&mut sandbox, program(PROGRAM, words), &mut Kept::new()).await?;
    let started = std::time::Instant::now();
    let collected = super::orchestrator::look(&sandbox, &[]);
    sandbox.end().await?;
    let slow =
        (started.elapsed() > Duration::from_secs(5)).then(|| "taking files out or ending took too long".to_owned());
    let failed = collected.err().map(|error| chain(&error));
    let shallow = shot
        .held()
        .is_none_or(|levels| levels < 1000)
        .then(|| format!("only {:?} levels were made", shot.held()));
    Ok(Judged::unless(
        failed.or(slow).or(shallow),
        format!("{} levels, taken down in time", shot.held().unwrap_or_default()),
    ))
}

async fn floods(drive: &Drive<'_>, id: u16) -> Result<Judged, ProbeError> {
    const MOST_GROWTH: u64 = 64 << 20;
    let before = resident();
    let task = if id == 80 {
        program(PROGRAM, [ENTRY, "hog", "flood", "256"].map(str::to_owned).to_vec())
    } else {
        shell(&format!("exec 1>&-\nexec {PROGRAM} {ENTRY} hog complain 256\n"))
    };
    let shot = drive.shoot(&[LITTLE_OUTPUT], task).await?;
    let grown = resident().saturating_sub(before);
    let verdict = (shot.ended.verdict != Verdict::Limit(Limit::Output)).then(|| format!("{:?}", shot.ended.verdict));
    let kept = (shot.stdout.len() > 64 << 10).then(|| format!("{} bytes were kept", shot.stdout.len()));
    let grew = (grown > MOST_GROWTH).then(|| format!("the supervisor grew by {grown} bytes"));
    Ok(Judged::unless(
        verdict.or(kept).or(grew),
        "limit.output, and the supervisor did not grow",
    ))
}

/// The resident memory of this process, in bytes.
pub(super) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse::<u64>().ok())
        .unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

async fn never_end(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let settings = &[ONE_SECOND];
    let (sleep, busy, deaf, stopped, blocked) = tokio::join!(
        drive.shoot(settings, shell("sleep 60")),
        drive.shoot(settings, shell("while :; do :; done")),
        drive.shoot(settings, shell("trap '' TERM INT HUP QUIT\nsleep 60 & wait; sleep 60")),
        drive.shoot(settings, shell("kill -STOP $$")),
        drive.hog(settings, &["blocked"]),
    );
    let mut all = Vec::new();
    for (name, shot) in [
        ("sleep", sleep?),
        ("busy", busy?),
        ("deaf", deaf?),
        ("stopped", stopped?),
        ("blocked", blocked?),
    ] {
        let on_time = shot.ended.verdict == Verdict::Limit(Limit::Wall) && shot.took < Duration::from_secs(1) + LATE;
        let why = (!on_time || shot.left > 0).then(|| {
            format!(
                "{name}: {:?} after {} ms with {} processes left",
                shot.ended.verdict,
                shot.took.as_millis(),
                shot.left
            )
        });
        all.push(Judged::unless(
            why,
            format!("{name}: limit.wall after {} ms", shot.took.as_millis()),
        ));
    }
    Ok(worst(all))
}

async fn processors(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    const FOR_MILLISECONDS: usize = 1000;
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let rationed = drive.mechanism("proc.cpu_quota") == "cgroup";
    if all == 1 && !rationed {
        return Ok(Judged::unenforceable(
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
        let wider = drive.hog(&[quota], &["processors"]).await?;
        if wider.held().is_none_or(|count| count > 1) {
            return Ok(Judged::broken(format!(
                "it made itself run on {:?} processors instead of 1",
                wider.held()
            )));
        }
    }
    let shot = drive.hog(&[quota], &["busy", "1000"]).await?;
    let got = shot.held().unwrap_or(usize::MAX);
    let words = format!("{got} ms of processor time in {FOR_MILLISECONDS} ms, {fair} are its share");
    Ok(if got <= fair + fair * 2 / 5 {
        Judged::held(words)
    } else {
        Judged::broken(words)
    })
}

async fn daemon(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let shot = drive.hog(&[], &["daemon"]).await?;
    let left = (shot.left > 0).then(|| format!("{} processes live on", shot.left));
    let failed = (shot.held() != Some(1)).then(|| format!("no daemon was made: {:?}", shot.ended.verdict));
    Ok(Judged::unless(
        left.or(failed),
        "nothing was left when the execution was over",
    ))
}

async fn orphans(drive: &Drive<'_>) -> Result<Judged, ProbeError> {
    let count = ORPHANS.to_string();
    let shot = drive.hog(&[FEW_PROCESSES], &["orphans", &count]).await?;
    let why = (shot.held() != Some(ORPHANS)).then(|| format!("{:?} after {:?}", shot.ended.verdict, shot.held()));
    Ok(Judged::unless(
        why,
        format!("{ORPHANS} orphans were reaped under a limit of 16 processes"),
    ))
}
