//! Other ways to start a program, run as commands in the same benchmark.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts its peers itself")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The command of bubblewrap with everything unshared and the host's root read-only.
pub const BUBBLEWRAP: &[&str] = &[
    "bwrap",
    "--unshare-all",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
];

/// Runs a command to its end, without output.
pub fn run(argv: &[&str]) -> Result<()> {
    let (program, rest) = argv.split_first().context("no program")?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{argv:?} ended with {status}");
    Ok(())
}

/// Whether a command can run on this machine.
pub fn is_available(argv: &[&str]) -> bool {
    run(argv).is_ok()
}

/// Builds the smallest program there is: a static `true`.
pub fn static_true(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("true.c");
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let program = folder.join("true");
    let paths = (
        source.to_string_lossy().into_owned(),
        program.to_string_lossy().into_owned(),
    );
    run(&["cc", "-O2", "-static", "-o", &paths.1, &paths.0])?;
    Ok(program)
}
