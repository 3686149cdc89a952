//! The steps that are one command each: cargo's own checks, the tests, and other tasks of this program.

use std::env;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use super::test_tally::TestTally;
use super::{StepOutcome, passed_with, skips};
use crate::program::{self, WatchedCommand};

/// The most failed tests that are retried: more do not fail by chance.
const MAX_RETRIED_TESTS: usize = 3;

pub(super) fn check_format(root: &Path) -> Result<StepOutcome> {
    run_command(program::cargo(root).args(["fmt", "--all", "--check"]))
}

pub(super) fn run_clippy(root: &Path) -> Result<StepOutcome> {
    run_command(program::cargo(root).args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

pub(super) fn build_docs(root: &Path) -> Result<StepOutcome> {
    let mut cargo = program::cargo(root);
    run_command(
        cargo
            .args(["doc", "--no-deps", "--workspace", "--locked"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Runs another task of this program in a process of its own.
pub(super) fn run_own_task(root: &Path, arguments: &[&str]) -> Result<StepOutcome> {
    let here = env::current_exe().context("cannot find this program")?;
    run_command(Command::new(here).current_dir(root).args(arguments))
}

/// Runs all tests of the workspace; with nextest in one process per test, which suits tests that start processes.
pub(super) fn run_tests(root: &Path) -> Result<StepOutcome> {
    let mut tally = TestTally::default();
    let mut cargo = program::cargo(root);
    if has_nextest(root) {
        cargo.args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]);
        cargo.args(["--success-output", "immediate"]);
        // On two busy cores one test in two thousand may lose a race of its own; it is retried once, and the tally reports it.
        cargo.args(["--retries", "1"]);
    } else {
        cargo.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
        cargo.args(["--lib", "--bins", "--tests", "--", "--show-output"]);
    }
    // The step before installs the tools; a test that runs without them would prove nothing.
    if root.join("target/tools/ty.version").exists() {
        cargo.env("RINGFENCE_REQUIRE_TOOLS", "1");
    }
    tally.add(&run_counted(&mut cargo)?);
    let mut documented = program::cargo(root);
    documented.args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
    tally.add(&run_counted(&mut documented)?);
    if tally.passed == 0 {
        bail!("no test ran");
    }
    Ok(passed_with(&tally.to_string()))
}

fn has_nextest(root: &Path) -> bool {
    let mut cargo = program::cargo(root);
    cargo
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    cargo.status().is_ok_and(|status| status.success())
}

/// Runs a test command and tallies its tests.
pub(super) fn run_counted(command: &mut Command) -> Result<TestTally> {
    let name = program::display_command(command);
    checked_tally(&program::run_watched(command, is_reported)?, &name)
}

/// Runs a test program in the same way; a few failed tests are retried once, and the tally reports it.
pub(super) fn run_counted_with_retry(command: &mut Command) -> Result<TestTally> {
    let name = program::display_command(command);
    run_with_retry(&name, |again| {
        if !again.is_empty() {
            command.arg("--exact").args(again);
        }
        program::run_watched(command, is_reported)
    })
}

/// Runs all tests, and then the few that failed once more.
fn run_with_retry(name: &str, mut run: impl FnMut(&[&str]) -> Result<WatchedCommand>) -> Result<TestTally> {
    let first = run(&[])?;
    let failed = failed_tests(&first.lines);
    if first.status.success() || failed.is_empty() || failed.len() > MAX_RETRIED_TESTS {
        return checked_tally(&first, name);
    }
    skips::check_skips(&first.lines)?;
    eprintln!("-- once more: {}", failed.join(", "));
    let mut tally = TestTally::from_output(&first.lines);
    tally.add(&checked_tally(&run(&failed)?, name)?);
    tally.retried = failed.len() as u64;
    Ok(tally)
}

/// The names of the tests that a test program reports as failed.
fn failed_tests(lines: &[String]) -> Vec<&str> {
    let tests = lines.iter().filter_map(|line| line.trim().strip_prefix("test "));
    tests.filter_map(|test| test.strip_suffix(" ... FAILED")).collect()
}

/// Whether a line is displayed: the output of passed tests may say why one skipped itself; the lines around it are dropped.
fn is_reported(line: &str) -> bool {
    let line = line.trim();
    let passed = line.starts_with("test ") && line.ends_with(" ... ok");
    let frame = [
        "stdout ───",
        "running 1 test",
        "test result: ok. 1 passed",
        "successes:",
    ];
    !passed && !line.is_empty() && !frame.iter().any(|start| line.starts_with(start))
}

/// The tally of a command that must have succeeded, in which every skipped test has an accepted reason.
fn checked_tally(seen: &WatchedCommand, name: &str) -> Result<TestTally> {
    require_success(seen.status, name)?;
    skips::check_skips(&seen.lines)?;
    Ok(TestTally::from_output(&seen.lines))
}

pub(super) fn run_command(command: &mut Command) -> Result<StepOutcome> {
    let name = program::display_command(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{name}`"))?;
    require_success(status, &name)?;
    Ok(passed_with(""))
}

fn require_success(status: ExitStatus, name: &str) -> Result<()> {
    if !status.success() {
        bail!("`{name}` ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
