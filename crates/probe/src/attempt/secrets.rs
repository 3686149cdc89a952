//! Attempts on secrets in home folders, projects and environments.

use std::fs::{self, File};
use std::io;

use super::{AttemptResult, ProbeAttempt, new_attempt, open_to_write, read_secret};
use crate::targets::AttemptTargets;

/// Secrets that are read, by probe.
pub(crate) const READ_SECRETS: [(u16, &[&str]); 6] = [
    (25, &[".ssh/id_ed25519"]),
    (
        26,
        &[
            ".aws/credentials",
            ".config/gcloud/credentials.db",
            ".azure/accessTokens.json",
        ],
    ),
    (27, &[".kube/config"]),
    (28, &[".docker/config.json"]),
    (29, &[".netrc", ".git-credentials", ".npmrc", ".pypirc"]),
    (
        30,
        &[
            ".mozilla/firefox/profile/logins.json",
            ".config/google-chrome/Default/Cookies",
            ".local/share/keyrings/login.keyring",
        ],
    ),
];

/// Files that other programs load by themselves, and that the attempts write to.
pub(crate) const WRITTEN_FILES: [(u16, &[&str]); 3] = [
    (31, &[".bashrc", ".profile", ".zshrc"]),
    (32, &["project/.git/hooks/pre-commit", "project/.git/config"]),
    (
        33,
        &[
            "project/.mcp.json",
            "project/.claude/settings.json",
            "project/.vscode/tasks.json",
            "project/.envrc",
        ],
    ),
];

/// Where a cluster puts the token of a service account.
pub(crate) const SERVICE_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    if id == 34 {
        return environment_attempts(targets);
    }
    let homes = || targets.homes.iter();
    let mut all = Vec::new();
    for (_, names) in READ_SECRETS.iter().filter(|(probe, _)| *probe == id) {
        for path in homes().flat_map(|home| names.iter().map(move |name| format!("{home}/{name}"))) {
            all.push(read_attempt(path, &targets.marker));
        }
    }
    if id == 27 {
        all.push(read_attempt(targets.system_path(SERVICE_TOKEN), &targets.marker));
    }
    for (_, names) in WRITTEN_FILES.iter().filter(|(probe, _)| *probe == id) {
        for path in homes().flat_map(|home| names.iter().map(move |name| format!("{home}/{name}"))) {
            all.push(write_attempt(path));
        }
    }
    all
}

fn read_attempt(path: String, marker: &str) -> ProbeAttempt {
    let marker = marker.to_owned();
    new_attempt(path.clone(), move || read_secret(&path, &marker))
}

fn write_attempt(path: String) -> ProbeAttempt {
    new_attempt(path.clone(), move || match open_to_write(&path) {
        AttemptResult::Refused(error) if error.kind() == io::ErrorKind::NotFound => File::options()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|_| fs::remove_file(&path))
            .into(),
        other @ (AttemptResult::Refused(_) | AttemptResult::Succeeded(_) | AttemptResult::WithoutEffect(_)) => other,
    })
}

fn environment_attempts(targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let (known, in_proc) = (targets.env.clone(), targets.env.clone());
    vec![
        new_attempt("own", move || {
            let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
            judge_variables(&names.filter(|name| !known.contains(name)).collect::<Vec<_>>())
        }),
        new_attempt("/proc", move || match other_environment_variables(&in_proc) {
            Ok(strange) => judge_variables(&strange),
            Err(error) => AttemptResult::Refused(error),
        }),
    ]
}

fn judge_variables(strange: &[String]) -> AttemptResult {
    if strange.is_empty() {
        AttemptResult::WithoutEffect("nothing but what the policy gives".to_owned())
    } else {
        AttemptResult::Succeeded(strange.join(", "))
    }
}

/// The variable names in every environment that `/proc` shows, except the known ones.
fn other_environment_variables(known: &[String]) -> io::Result<Vec<String>> {
    let mut strange = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(bytes) = fs::read(entry?.path().join("environ")) else {
            continue;
        };
        for entry in bytes.split(|byte| *byte == 0) {
            let name =
                String::from_utf8_lossy(entry.split(|byte| *byte == b'=').next().unwrap_or_default()).into_owned();
            if !name.is_empty() && !known.contains(&name) && !strange.contains(&name) {
                strange.push(name);
            }
        }
    }
    Ok(strange)
}
