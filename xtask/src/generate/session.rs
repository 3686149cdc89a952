//! The session that the README shows: runs its commands with the program as built, and draws what a terminal would show.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

mod screen;

use screen::ScreenLine;

/// The files that the session begins with.
const SESSION_FILES: [(&str, &str); 3] = [
    ("servers.json", include_str!("session/servers.json")),
    ("policy.yaml", include_str!("session/policy.yaml")),
    ("overdue.ts", include_str!("session/overdue.ts")),
];

/// One command of the session, and the exit status that it ends with.
struct SessionStep {
    command: &'static str,
    status: i32,
}

const SESSION_STEPS: [SessionStep; 5] = [
    SessionStep {
        command: "cat policy.yaml",
        status: 0,
    },
    SessionStep {
        command: "cat overdue.ts",
        status: 0,
    },
    SessionStep {
        command: "ringfence run overdue.ts --servers servers.json --policy policy.yaml",
        status: 0,
    },
    SessionStep {
        command: "ringfence exec -- sh -c 'cat /etc/shadow; unshare -r true'",
        status: 1,
    },
    SessionStep {
        command: "ringfence audit verify",
        status: 0,
    },
];

/// Runs the session in an empty folder, as a new user would, and returns it as an SVG.
pub(super) fn session_picture(program: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot make a folder for the session of the README")?;
    for (name, text) in SESSION_FILES {
        fs::write(folder.path().join(name), text).with_context(|| format!("cannot write `{name}`"))?;
    }
    let mut lines = Vec::new();
    for step in &SESSION_STEPS {
        if !lines.is_empty() {
            lines.push(ScreenLine::Printed(String::new()));
        }
        lines.push(ScreenLine::Typed(step.command.to_owned()));
        let printed = run_step(program, folder.path(), step)?;
        lines.extend(printed.lines().map(|line| ScreenLine::Printed(line.to_owned())));
    }
    screen::draw(&lines)
}

/// Everything that a command prints, in the order in which it comes.
fn run_step(program: &Path, folder: &Path, step: &SessionStep) -> Result<String> {
    let programs = program.parent().context("the built program has no folder")?;
    let mut path = programs.as_os_str().to_owned();
    path.push(":/usr/local/bin:/usr/bin:/bin");
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{}", step.command)])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{}`", step.command))?;
    let printed = String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed something that is not text", step.command))?;
    if output.status.code() != Some(step.status) {
        bail!(
            "`{}` of the README's session ended with {}\n{}",
            step.command,
            output.status,
            printed.trim_end()
        );
    }
    Ok(printed)
}

#[cfg(test)]
mod tests;
