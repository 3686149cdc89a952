//! The orchestrator: names, sizes, times and ceilings that a caller gives.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use ringfence_policy::{Ceiling, Draft, Glob, GuestPath, RelPath};
use ringfence_sandbox::{CollectError, CollectedFiles, Sandbox, Stop, Verdict};

use super::probe_run::{CollectedOutput, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner, error_chain};

/// Names that must be refused as file names.
const CLIMBING_NAMES: [&str; 9] = [
    "../other",
    "../../other",
    "a/../../other",
    "/etc/passwd",
    "a//b",
    "./a",
    "a/.",
    "a\0b",
    "",
];

pub(crate) async fn judge_orchestrator(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    match id {
        153 => Ok(judge_names()),
        155 => judge_ends(drive).await,
        156 => judge_input_files(drive).await,
        157 => Ok(judge_times()),
        _ => Ok(judge_ceilings()),
    }
}

fn judge_names() -> ProbeJudgement {
    let relative = CLIMBING_NAMES.into_iter().find(|name| name.parse::<RelPath>().is_ok());
    let guest = CLIMBING_NAMES.into_iter().map(|name| format!("/{name}")).find(|name| {
        // A path in the sandbox may be absolute; it must not climb.
        name != "//etc/passwd" && name.parse::<GuestPath>().is_ok()
    });
    let wrong = relative
        .map(str::to_owned)
        .or(guest)
        .map(|name| format!("`{}` is a name", name.escape_default()));
    ProbeJudgement::broken_if(wrong, format!("{} spellings are refused", CLIMBING_NAMES.len() * 2))
}

/// Judges executions that are ended midway, ended twice, and whose files are taken out in between.
async fn judge_ends(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let mut sandbox = drive.launch_sandbox(&[]).await?;
    let (switch, mut stop) = Stop::new();
    let mut kept = CollectedOutput::new();
    let pull = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        // A closed channel means that the execution is over already.
        let _ = switch.send(true);
    };
    let (ended, ()) = tokio::join!(
        sandbox.run(shell_task("echo x > f; sleep 60"), &mut kept, &mut stop),
        pull
    );
    let cancelled = ended?.verdict == Verdict::Cancelled;
    let collected = collect_workspace(&sandbox, &drive.policy.fs().deny);
    let twice = sandbox.kill().and_then(|()| sandbox.kill());
    // A workspace whose sandbox was killed may be readable or not; it never belongs to another sandbox.
    let after = collect_workspace(&sandbox, &drive.policy.fs().deny);
    let mut sound = sandbox.is_sound();
    for _ in 0..50 {
        if !sound {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        sound = sandbox.is_sound();
    }
    sandbox.end().await?;
    let wrong = [
        (!cancelled).then(|| "it was not cancelled".to_owned()),
        collected.err().map(|error| error_chain(&error)),
        twice.err().map(|error| error.to_string()),
        after
            .is_ok_and(|found| found.files.len() > 1)
            .then(|| "strange files".to_owned()),
        sound.then(|| "a killed sandbox says it is sound".to_owned()),
    ];
    Ok(ProbeJudgement::broken_if(
        wrong.into_iter().flatten().next(),
        "cancelled, killed twice, ended once more",
    ))
}

/// Judges names, links and sizes that would put a file elsewhere or too much of it.
async fn judge_input_files(drive: &ProbeRunner<'_>) -> Result<ProbeJudgement, ProbeError> {
    let small = [(
        "fs.mounts",
        r#"[{"path": "/workspace", "access": "rw", "quota": "1MiB"}]"#,
    )];
    let mut sandbox = drive.launch_sandbox(&small).await?;
    let hidden = drive.stage.canary();
    let folder = hidden.parent().unwrap_or(&hidden).display().to_string();
    run_in_sandbox(
        &mut sandbox,
        shell_task(&format!("ln -s {folder} way; ln -s {} file", hidden.display())),
        &mut CollectedOutput::new(),
    )
    .await?;
    let (little, much) = (
        drive.stage.work.path().join("little"),
        drive.stage.work.path().join("much"),
    );
    let made = fs::write(&little, "x").and_then(|()| fs::write(&much, vec![1u8; 4 << 20]));
    let put = |from: &std::path::Path, name: &str| {
        name.parse::<RelPath>()
            .map(|name| sandbox.put_file(from, &name).is_ok())
    };
    let went = |answer: Result<bool, _>| matches!(answer, Ok(true));
    let wrong = [
        made.err().map(|error| error.to_string()),
        went(put(&little, "way/new")).then(|| "through a link to a folder".to_owned()),
        went(put(&little, "file")).then(|| "through a link to a file".to_owned()),
        (!went(put(&little, "Case")) || !went(put(&little, "case")))
            .then(|| "names that differ by case collide".to_owned()),
        went(put(&much, "much")).then(|| "more than the quota".to_owned()),
        went(put(drive.stage.work.path(), "folder")).then(|| "a folder as a file".to_owned()),
        went(put(std::path::Path::new("/dev/zero"), "device")).then(|| "a device as a file".to_owned()),
        fs::exists(hidden.with_file_name("new"))
            .unwrap_or(true)
            .then(|| "a file of the host was made".to_owned()),
    ];
    let half =
        collect_workspace(&sandbox, &[]).is_ok_and(|found| found.files.iter().any(|file| file.path.as_str() == "much"));
    let half = half.then(|| "a file that did not fit was left in part".to_owned());
    let wrong = wrong.into_iter().flatten().next().or(half);
    sandbox.end().await?;
    Ok(ProbeJudgement::broken_if(
        wrong,
        "links, folders, devices and too much are refused",
    ))
}

fn judge_times() -> ProbeJudgement {
    let never = [
        "0",
        "0s",
        "-1s",
        "NaN",
        "nan s",
        "1e99s",
        "99999999999999999999s",
        "inf",
        "1",
        "\"\"",
        "null s",
        "1ss",
    ];
    let taken = never
        .into_iter()
        .find(|time| Draft::builtin().set("proc.wall_timeout", time).is_ok());
    ProbeJudgement::broken_if(
        taken.map(|time| format!("`{time}` is a time")),
        format!("{} spellings are refused", never.len()),
    )
}

fn judge_ceilings() -> ProbeJudgement {
    const WIDER: [(&str, &str); 7] = [
        ("proc.mem_limit", "64GiB"),
        ("proc.wall_timeout", "10h"),
        ("proc.fork_limit", "4096"),
        ("fs.mounts", r#"[{"path": "/host", "access": "ro", "from": "/"}]"#),
        (
            "fs.mounts",
            r#"[{"path": "/workspace", "access": "rw", "quota": "64GiB"}]"#,
        ),
        ("net.enabled", "true"),
        ("tools.default", "allow"),
    ];
    let ceiling = Ceiling::from_draft(Draft::builtin());
    let let_through = WIDER.into_iter().find(|(key, value)| {
        // A draft that cannot be written is refused as well.
        Draft::empty()
            .set(key, value)
            .is_ok_and(|draft| draft.under(&ceiling).is_ok())
    });
    let wrong = let_through.map(|(key, value)| format!("`{key}: {value}` went above the ceiling"));
    ProbeJudgement::broken_if(wrong, format!("{} wider drafts are refused", WIDER.len()))
}

/// Collects what is in the workspace.
pub(super) fn collect_workspace(sandbox: &Sandbox, deny: &[Glob]) -> Result<CollectedFiles, CollectError> {
    let workspace = sandbox.workspace()?;
    workspace.collect(&BTreeMap::new(), deny, &[], &workspace.limits())
}
