//! The steps that are one command each: cargo's own checks, the tests, and other tasks of this program.

use std::env;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use super::tally::Tally;
use super::{Outcome, passed, skips};
use crate::program::{self, Watched};

/// The most failed tests that are retried: more do not fail by chance.
const AGAIN: usize = 3;

pub(super) fn format(root: &Path) -> Result<Outcome> {
    run(program::cargo(root).args(["fmt", "--all", "--check"]))
}

pub(super) fn clippy(root: &Path) -> Result<Outcome> {
    run(program::cargo(root).args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

pub(super) fn docs(root: &Path) -> Result<Outcome> {
    let mut cargo = program::cargo(root);
    run(cargo
        .args(["doc", "--no-deps", "--workspace", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs another task of this program in a process of its own.
pub(super) fn own(root: &Path, arguments: &[&str]) -> Result<Outcome> {
    let here = env::current_exe().context("cannot find this program")?;
    run(Command::new(here).current_dir(root).args(arguments))
}

/// Runs all tests of the workspace; with nextest in one process per test, which suits tests that start processes.
pub(super) fn tests(root: &Path) -> Result<Outcome> {
    let mut tally = Tally::default();
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
    tally.add(&counted(&mut cargo)?);
    let mut documented = program::cargo(root);
    documented.args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
    tally.add(&counted(&mut documented)?);
    if tally.passed == 0 {
        bail!("no test ran");
    }
    Ok(passed(&tally.to_string()))
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
pub(super) fn counted(command: &mut Command) -> Result<Tally> {
    let name = program::shown(command);
    settle(&program::watch(command, is_news)?, &name)
}

/// Runs a test program in the same way; a few failed tests are retried once, and the tally reports it.
pub(super) fn counted_twice(command: &mut Command) -> Result<Tally> {
    let name = program::shown(command);
    twice(&name, |again| {
        if !again.is_empty() {
            command.arg("--exact").args(again);
        }
        program::watch(command, is_news)
    })
}

/// Runs all tests, and then the few that failed once more.
fn twice(name: &str, mut run: impl FnMut(&[&str]) -> Result<Watched>) -> Result<Tally> {
    let first = run(&[])?;
    let failed = failed(&first.lines);
    if first.status.success() || failed.is_empty() || failed.len() > AGAIN {
        return settle(&first, name);
    }
    skips::judge(&first.lines)?;
    eprintln!("-- once more: {}", failed.join(", "));
    let mut tally = Tally::of(&first.lines);
    tally.add(&settle(&run(&failed)?, name)?);
    tally.again = failed.len() as u64;
    Ok(tally)
}

/// The names of the tests that a test program reports as failed.
fn failed(lines: &[String]) -> Vec<&str> {
    let tests = lines.iter().filter_map(|line| line.trim().strip_prefix("test "));
    tests.filter_map(|test| test.strip_suffix(" ... FAILED")).collect()
}

/// Whether a line is displayed: the output of passed tests may say why one skipped itself; the lines around it are dropped.
fn is_news(line: &str) -> bool {
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
fn settle(seen: &Watched, name: &str) -> Result<Tally> {
    succeeded(seen.status, name)?;
    skips::judge(&seen.lines)?;
    Ok(Tally::of(&seen.lines))
}

pub(super) fn run(command: &mut Command) -> Result<Outcome> {
    let name = program::shown(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{name}`"))?;
    succeeded(status, &name)?;
    Ok(passed(""))
}

fn succeeded(status: ExitStatus, name: &str) -> Result<()> {
    if !status.success() {
        bail!("`{name}` ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
