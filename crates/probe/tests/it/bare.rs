//! The attacker without a sandbox: in namespaces of its own, as a user who owns nothing on the machine.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_ringfence-probe-attempt");
const STAGE: &str = include_str!("rehearse.sh");
/// A user number that no machine has, for controls that root starts.
const STRANGER: &str = "1879048191";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The privileges of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// Root of a user namespace, without privileges outside it.
    Stranger,
    /// Root, in new namespaces of every other kind.
    Root,
}

fn throw_away(right: As) -> Command {
    let (first, before): (&str, &[&str]) = match right {
        As::Stranger if is_root() => (
            "setpriv",
            &["--reuid", STRANGER, "--regid", STRANGER, "--clear-groups", "unshare"],
        ),
        As::Stranger | As::Root => ("unshare", &[]),
    };
    let mut command = Command::new(first);
    command.args(before);
    if right == As::Stranger {
        command.args(["--user", "--map-root-user"]);
    }
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--net",
        "--ipc",
        "--uts",
        "--cgroup",
        "--mount-proc",
    ]);
    command
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// A folder that any user may mount on; it is removed afterwards.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// Runs `words` on the stage of a control.
pub(crate) fn on_stage(right: As, words: &[&str]) -> Output {
    let folder = folder();
    let mut command = throw_away(right);
    command.args(["sh", "-c", STAGE, "sh"]).arg(folder.path());
    command.args(words.iter().map(|word| {
        if *word == "FOLDER" {
            folder.path().to_str().unwrap()
        } else {
            word
        }
    }));
    command.stdin(Stdio::null()).output().unwrap()
}

/// The JSON objects in the output, one on each line.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The amount that a hog held without a limit.
pub(crate) fn hog(words: &[&str]) -> Option<u64> {
    let all: Vec<&str> = [EXE, "probe-attempt", "hog"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let output = on_stage(As::Stranger, &all);
    // A flood prints its report right after its flood.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.rsplit_once('{').map(|(_, rest)| format!("{{{rest}"))?;
    serde_json::from_str::<Value>(&line).ok()?.get("held")?.as_u64()
}
