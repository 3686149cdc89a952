//! What the host does with the files that a program left.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_sandbox::{CollectError, CollectedFiles, ExistingFileAction, Sandbox};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::probe_run::{CollectedOutput, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner, error_chain};

pub(crate) async fn judge_files(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    let canary = drive.stage.canary();
    let script = match id {
        15 => format!(
            "ln -s {0} link; ln -s {1} folder; echo ok > plain",
            canary.display(),
            parent_folder(&canary).display()
        ),
        17 => format!(
            "mkdir swap; echo inside > swap/canary; ln -s {} other; echo ok > plain",
            parent_folder(&canary).display()
        ),
        20 => "mkdir -p sub/.ssh .git/hooks; for name in .env.local key.pem sub/.ssh/id .git/hooks/pre-commit .netrc; \
               do echo x > $name; done; echo ok > plain"
            .to_owned(),
        23 => "cp /bin/true tool; chmod 6755 tool; ln tool second; echo ok > plain".to_owned(),
        _ => "mkfifo fifo; mknod device c 1 3; echo ok > plain; \
              /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; true"
            .to_owned(),
    };
    let mut sandbox = drive.launch_sandbox(&[]).await?;
    run_in_sandbox(&mut sandbox, shell_task(&script), &mut CollectedOutput::new()).await?;
    let to = drive.stage.work.path().join(format!("out-{id}"));
    let judged = if id == 17 {
        judge_swap(drive, &sandbox, &to)
    } else {
        judge_copy(drive, &sandbox, &to, id)
    };
    sandbox.end().await?;
    Ok(judged)
}

fn parent_folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

fn copy_out(drive: &ProbeRunner<'_>, sandbox: &Sandbox, to: &Path) -> Result<CollectedFiles, CollectError> {
    let workspace = sandbox.workspace()?;
    let limits = workspace.limits();
    let collected = workspace.collect(&BTreeMap::new(), &drive.policy.fs().deny, &[], &limits)?;
    workspace.copy_out(&collected.files, to, ExistingFileAction::Overwrite, limits.time)?;
    Ok(collected)
}

fn judge_copy(drive: &ProbeRunner<'_>, sandbox: &Sandbox, to: &Path, id: u16) -> ProbeJudgement {
    let fifo = if id == 24 { make_fifo(sandbox) } else { String::new() };
    let started = Instant::now();
    let collected = match copy_out(drive, sandbox, to) {
        Ok(collected) => collected,
        Err(error) => return ProbeJudgement::broken(error_chain(&error)),
    };
    if started.elapsed() > Duration::from_secs(5) {
        return ProbeJudgement::broken("the host was held up");
    }
    let out = match list_files(to) {
        Ok(out) => out,
        Err(error) => return ProbeJudgement::broken(format!("the copy cannot be looked at: {error}")),
    };
    if !out.iter().any(|path| path.ends_with("plain")) {
        return ProbeJudgement::broken("the plain file did not come out");
    }
    let skipped: Vec<String> = collected
        .skipped
        .named()
        .iter()
        .map(|(name, why)| format!("{name} ({})", why.description()))
        .collect();
    let wrong = match id {
        23 => out.iter().find_map(|path| special_mode(path)),
        _ => out.iter().find_map(|path| unwanted_file(drive, path)),
    };
    ProbeJudgement::broken_if(
        wrong,
        if id == 23 {
            "plain modes, our own user".to_owned()
        } else {
            format!("left behind: {}{fifo}", skipped.join(", "))
        },
    )
}

/// Makes a fifo where programs cannot; the host can where it reaches the place.
fn make_fifo(sandbox: &Sandbox) -> String {
    let path = PathBuf::from(format!("/proc/{}/root/workspace/made-by-the-host", sandbox.pid()));
    let made = rustix::fs::mknodat(
        CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    );
    if made.is_ok() {
        "; with a fifo that the host made".to_owned()
    } else {
        String::new()
    }
}

fn list_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn special_mode(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o7000 != 0 {
        return Some(format!("{} has mode {mode:o}", path.display()));
    }
    let own = rustix::process::geteuid().as_raw();
    (found.uid() != own).then(|| format!("{} belongs to {}", path.display(), found.uid()))
}

/// Any file other than the plain one counts as unwanted.
fn unwanted_file(drive: &ProbeRunner<'_>, path: &Path) -> Option<String> {
    let plain = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    if !plain {
        return Some(format!("{} is not a plain file", path.display()));
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    if text.contains(&drive.stage.targets.marker) {
        return Some(format!("{} holds a secret of the host", path.display()));
    }
    (!path.ends_with("plain")).then(|| format!("{} came out", path.display()))
}

/// Swaps the folder and the link while the host copies, from the host's own side of the workspace: programs are dead by the
/// time files are taken out.
fn judge_swap(drive: &ProbeRunner<'_>, sandbox: &Sandbox, to: &Path) -> ProbeJudgement {
    const FOR: Duration = Duration::from_millis(400);
    let workspace = PathBuf::from(format!("/proc/{}/root/workspace", sandbox.pid()));
    let going = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&going);
    let swapper = std::thread::spawn(move || {
        let mut count = 0u64;
        while still.load(Ordering::Relaxed) {
            let (one, other) = (workspace.join("swap"), workspace.join("other"));
            count += u64::from(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok());
        }
        count
    });
    let started = Instant::now();
    let mut looks = 0;
    let mut wrong = None;
    while started.elapsed() < FOR && wrong.is_none() {
        // A file that is swapped between the scan and the copy is an error, never another file.
        let _ = copy_out(drive, sandbox, to);
        looks += 1;
        let secret =
            |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(&drive.stage.targets.marker));
        wrong = list_files(to)
            .unwrap_or_default()
            .into_iter()
            .find(secret)
            .map(|path| format!("{} holds a secret", path.display()));
    }
    going.store(false, Ordering::Relaxed);
    match swapper.join() {
        Ok(0) => ProbeJudgement::broken_if(wrong, "files are taken out only when nothing runs"),
        Ok(count) => ProbeJudgement::broken_if(wrong, format!("{count} exchanges during {looks} copies")),
        Err(_) => ProbeJudgement::broken("the race could not be made"),
    }
}
