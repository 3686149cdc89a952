//! Hidden files of a host folder, while the host changes it and by whatever path a mount names it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_policy::{Ceiling, RelPath};
use ringfence_sandbox::{Spec, SpecOptions};

use super::probe_run::{CollectedOutput, run_in_sandbox, shell_task};
use super::{ProbeError, ProbeJudgement, ProbeRunner};

/// The path of the folder in the sandbox.
const MOUNT_PATH: &str = "/late";
/// Hidden things as a mount may name them, with their path below their folder.
const HIDDEN_NAMES: [(&str, &str); 6] = [
    (".ssh", ".ssh"),
    (".ssh/keys", ".ssh/keys"),
    ("svc/.aws/credentials", "svc/.aws/credentials"),
    (".env", ".env"),
    ("server.pem", "server.pem"),
    ("plain", ".ssh/keys"),
];

/// Content that every program may read.
const OPEN: &str = "open to all";
/// Names that a glob usually spells out, and a file of each.
const LATE: [(&str, &str); 4] = [
    (".env", ".env"),
    (".ssh", ".ssh/id"),
    (".netrc", ".netrc"),
    (".npmrc", ".npmrc"),
];

pub(crate) async fn judge_hiding(drive: &ProbeRunner<'_>, id: u16) -> Result<ProbeJudgement, ProbeError> {
    let folder = drive.stage.work.path().join(format!("hiding-{id}"));
    if let Err(error) = fill_folder(&folder, &drive.stage.targets.marker) {
        return Ok(ProbeJudgement::broken(format!("could not be tried: {error}")));
    }
    match id {
        181 => Ok(judge_named(drive, &folder)),
        182 => judge_replaced(drive, &folder).await,
        183 => judge_late_socket(drive, &folder).await,
        185 => shown_twice(drive, &folder).await,
        186 => late_names(drive, &folder).await,
        _ => judge_left_links(drive, &folder).await,
    }
}

fn fill_folder(folder: &Path, secret: &str) -> io::Result<()> {
    for name in [".ssh/keys/id", "svc/.aws/credentials", ".env", "server.pem"] {
        write(&folder.join(name), secret)?;
    }
    symlink(".ssh/keys", folder.join("plain"))?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

fn mount_setting(from: &Path) -> String {
    serde_json::json!([{ "path": MOUNT_PATH, "access": "ro", "from": from }]).to_string()
}

fn is_denied(drive: &ProbeRunner<'_>, name: &str) -> bool {
    let path = name.parse::<RelPath>();
    path.is_ok_and(|path| drive.policy.fs().deny.iter().any(|glob| glob.hides(&path)))
}

/// 181: mounts a hidden path, and a path below it.
fn judge_named(drive: &ProbeRunner<'_>, folder: &Path) -> ProbeJudgement {
    let denied = HIDDEN_NAMES.iter().filter(|(_, real)| is_denied(drive, real));
    let shown = denied.clone().find(|(name, _)| {
        drive
            .build_spec(&[("fs.mounts", &mount_setting(&folder.join(name)))])
            .is_ok()
    });
    let wrong = shown.map(|(name, _)| format!("`from: {name}` is shown"));
    ProbeJudgement::broken_if(wrong, format!("{} spellings are refused", denied.count()))
}

/// 182: the host saves a hidden file as editors do, and makes a hidden folder anew.
async fn judge_replaced(drive: &ProbeRunner<'_>, folder: &Path) -> Result<ProbeJudgement, ProbeError> {
    let mut sandbox = drive.launch_sandbox(&[("fs.mounts", &mount_setting(folder))]).await?;
    let marker = drive.stage.targets.marker.as_str();
    let change = || -> io::Result<()> {
        write(&folder.join("new"), marker)?;
        fs::rename(folder.join("new"), folder.join(".env"))?;
        fs::remove_dir_all(folder.join(".ssh"))?;
        write(&folder.join(".ssh/keys/id"), marker)
    };
    let changed = change();
    let names = [".env", ".ssh/keys/id"]
        .into_iter()
        .filter(|name| is_denied(drive, name));
    let names: Vec<String> = names.map(|name| format!("{MOUNT_PATH}/{name}")).collect();
    let script = format!("echo tried; cat {} /dev/null", names.join(" "));
    let shot = run_in_sandbox(&mut sandbox, shell_task(&script), &mut CollectedOutput::new()).await?;
    sandbox.end().await?;
    let wrong = match changed {
        Err(error) => Some(format!("could not be tried: {error}")),
        Ok(()) if !shot.stdout.contains("tried") => Some("could not be tried".to_owned()),
        Ok(()) if shot.stdout.contains(marker) => Some("what the host put there is read".to_owned()),
        Ok(()) => None,
    };
    Ok(ProbeJudgement::broken_if(wrong, "names stay hidden"))
}

/// 185: several mounts show the same folder: as it is, through a link, and a part of it.
async fn shown_twice(drive: &ProbeRunner<'_>, folder: &Path) -> Result<ProbeJudgement, ProbeError> {
    let link = drive.stage.work.path().join("hiding-link");
    if let Err(error) = symlink(folder, &link).and_then(|()| write(&folder.join("svc/open"), OPEN)) {
        return Ok(ProbeJudgement::broken(format!("could not be tried: {error}")));
    }
    let mounts = serde_json::json!([
        { "path": "/one", "access": "ro", "from": folder },
        { "path": "/two", "access": "ro", "from": folder },
        { "path": "/three", "access": "ro", "from": link },
        { "path": "/four", "access": "ro", "from": folder.join("svc") },
    ]);
    let mut sandbox = drive.launch_sandbox(&[("fs.mounts", &mounts.to_string())]).await?;
    let names = HIDDEN_NAMES.iter().map(|(_, real)| *real).chain([".ssh/keys/id"]);
    let denied: Vec<&str> = names.filter(|name| is_denied(drive, name)).collect();
    let whole = ["one", "two", "three"]
        .iter()
        .flat_map(|mount| denied.iter().map(move |name| format!("/{mount}/{name}")));
    let part = denied.iter().filter_map(|name| name.strip_prefix("svc/"));
    let paths: Vec<String> = whole.chain(part.map(|name| format!("/four/{name}"))).collect();
    let script = format!("cat /three/svc/open /four/open {} 2>&1", paths.join(" "));
    let shot = run_in_sandbox(&mut sandbox, shell_task(&script), &mut CollectedOutput::new()).await?;
    sandbox.end().await?;
    let seen = shot.stdout.matches(OPEN).count();
    let wrong = if shot.stdout.contains(&drive.stage.targets.marker) {
        Some("what one mount hides another shows".to_owned())
    } else {
        (seen != 2).then(|| format!("could not be tried: {seen} of 2 open files are read"))
    };
    Ok(ProbeJudgement::broken_if(
        wrong,
        format!("{} names are hidden in each", paths.len()),
    ))
}

/// 186: the host makes hidden names that did not exist when the sandbox was made.
async fn late_names(drive: &ProbeRunner<'_>, folder: &Path) -> Result<ProbeJudgement, ProbeError> {
    let shown = folder.join("late");
    if let Err(error) = write(&shown.join("sub/open"), OPEN) {
        return Ok(ProbeJudgement::broken(format!("could not be tried: {error}")));
    }
    let mut sandbox = drive.launch_sandbox(&[("fs.mounts", &mount_setting(&shown))]).await?;
    // A name that only a wildcard matches is not hidden before it exists, and the result says so.
    let deny = &drive.policy.fs().deny;
    let is_written_out = |name: &&(&str, &str)| deny.iter().any(|glob| glob.as_str().contains(name.0));
    let names: Vec<String> = LATE
        .iter()
        .filter(is_written_out)
        .flat_map(|(_, file)| [(*file).to_owned(), format!("sub/{file}")])
        .collect();
    let marker = drive.stage.targets.marker.as_str();
    let made = names.iter().try_for_each(|name| write(&shown.join(name), marker));
    let paths: Vec<String> = names.iter().map(|name| format!("{MOUNT_PATH}/{name}")).collect();
    let script = format!("cat {MOUNT_PATH}/sub/open {} 2>&1", paths.join(" "));
    let shot = run_in_sandbox(&mut sandbox, shell_task(&script), &mut CollectedOutput::new()).await?;
    sandbox.end().await?;
    let wrong = match made {
        Err(error) => Some(format!("could not be tried: {error}")),
        Ok(()) if !shot.stdout.contains(OPEN) => Some("could not be tried".to_owned()),
        Ok(()) if shot.stdout.contains(marker) => Some("what the host made later is read".to_owned()),
        Ok(()) => None,
    };
    Ok(ProbeJudgement::broken_if(
        wrong,
        format!("{} names stay hidden", names.len()),
    ))
}

/// 183: a socket of the host did not exist when the folder was scanned.
async fn judge_late_socket(drive: &ProbeRunner<'_>, folder: &Path) -> Result<ProbeJudgement, ProbeError> {
    let mut sandbox = drive.launch_sandbox(&[("fs.mounts", &mount_setting(folder))]).await?;
    let path = folder.join("late.sock");
    let listen = || -> io::Result<UnixListener> {
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(&path, Permissions::from_mode(0o777))?;
        Ok(listener)
    };
    let listener = listen();
    let script = format!(
        "test -S {MOUNT_PATH}/late.sock && echo there; \
         /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{MOUNT_PATH}/late.sock\")'"
    );
    let shot = run_in_sandbox(&mut sandbox, shell_task(&script), &mut CollectedOutput::new()).await?;
    sandbox.end().await?;
    let wrong = match listener.map(|listener| listener.accept()) {
        Err(error) => Some(format!("could not be tried: {error}")),
        Ok(Ok(_)) => Some("a socket of the host is reached".to_owned()),
        Ok(Err(_)) if !shot.stdout.contains("there") => Some("could not be tried: it is not seen".to_owned()),
        Ok(Err(_)) => None,
    };
    Ok(ProbeJudgement::broken_if(wrong, "nobody listens at its other end"))
}

/// 184: a program leaves links in a kept place, where something is mounted below them later.
async fn judge_left_links(drive: &ProbeRunner<'_>, folder: &Path) -> Result<ProbeJudgement, ProbeError> {
    let [kept, outside] = ["kept", "outside"].map(|name| folder.join(name));
    if let Err(error) = leave_links(&kept, &outside) {
        return Ok(ProbeJudgement::broken(format!("could not be tried: {error}")));
    }
    for below in ["link/made", "link", "link/a/b"] {
        let mounts = serde_json::json!([
            { "path": "/workspace", "access": "rw", "quota": "1MiB", "keep": true },
            { "path": format!("/workspace/{below}"), "access": "ro", "from": folder.join("svc") },
        ]);
        let draft = drive.policy.to_draft().set("fs.mounts", &mounts.to_string())?;
        let options = SpecOptions {
            kept: Some(kept.clone()),
            ..SpecOptions::default()
        };
        let spec = Spec::new(&draft.under(&Ceiling::unlimited())?, &options)?;
        if let Ok(sandbox) = drive.backend.launch(&Arc::new(spec)).await {
            sandbox.end().await?;
            return Ok(ProbeJudgement::broken(format!("`{below}` is mounted behind a link")));
        }
        if fs::read_dir(&outside).is_ok_and(|mut found| found.next().is_some()) {
            return Ok(ProbeJudgement::broken(format!("`{below}` was made outside")));
        }
    }
    Ok(ProbeJudgement::held("links are refused"))
}

fn leave_links(kept: &Path, outside: &PathBuf) -> io::Result<()> {
    fs::create_dir_all(kept.join("workspace"))?;
    fs::create_dir_all(outside)?;
    // The sandbox's user could write there, whoever it is on the host.
    for folder in [kept, outside.as_path()] {
        fs::set_permissions(folder, Permissions::from_mode(0o777))?;
    }
    symlink(outside, kept.join("workspace/link"))
}
