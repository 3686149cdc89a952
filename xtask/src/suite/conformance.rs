//! The conformance suite of the protocol: our client against its servers, its client against ours, in both revisions.
//!
//! A run passes only when every scored scenario ran, passed, and checked something.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use super::{StepOutcome, npm, passed_with};
use crate::program;

/// The revisions, with the number of scored scenarios for a client and for a server.
const REVISIONS: [(&str, usize, usize); 2] = [("2025-11-25", 18, 30), ("2026-07-28", 32, 37)];
const SUITE_SCRIPT: &str = "@modelcontextprotocol/conformance/dist/index.js";
/// The file of expected failures, which is empty.
const EXPECTED_FAILURES_FILE: &str = "xtask/src/suite/conformance/expected-failures.yaml";
/// Milliseconds for one scenario, on a machine that may be busy.
const SCENARIO_TIMEOUT: &str = "90000";

pub(super) fn run(root: &Path) -> Result<StepOutcome> {
    let tools = npm::NpmTools::find(root)?;
    let client = client_program(root)?;
    let mut counted = 0;
    for (revision, scenarios, _) in REVISIONS {
        let mut suite = suite_command(&tools, root, "client", revision)?;
        suite.arg("--command").arg(&client);
        let scored = scored_scenarios(&tools, "Client", revision, scenarios)?;
        counted += run_scored(&mut suite, &scored).with_context(|| format!("our client in {revision}"))?;
    }
    let server = ServerUnderTest::start(&program::ringfence(root)?)?;
    for (revision, _, scenarios) in REVISIONS {
        let mut suite = suite_command(&tools, root, "server", revision)?;
        suite.arg("--url").arg(&server.url);
        let scored = scored_scenarios(&tools, "Server", revision, scenarios)?;
        counted += run_scored(&mut suite, &scored).with_context(|| format!("our server in {revision}"))?;
    }
    Ok(passed_with(&format!("{counted} scored scenarios of both revisions")))
}

/// Builds the client program that the suite drives.
fn client_program(root: &Path) -> Result<PathBuf> {
    let name = "ringfence-conformance-client";
    let built = program::build_programs(root, &["build", "-p", "ringfence-testkit", "--bin", name])?;
    let found = built.into_iter().find(|built| built.name == name && !built.test);
    found
        .map(|built| built.path)
        .with_context(|| format!("cargo built no `{name}`"))
}

fn suite_command(tools: &npm::NpmTools, root: &Path, side: &str, revision: &str) -> Result<Command> {
    let results = root.join("target/conformance").join(format!("{side}-{revision}"));
    if results.exists() {
        fs::remove_dir_all(&results).with_context(|| format!("cannot remove `{}`", results.display()))?;
    }
    let mut suite = tools.program(SUITE_SCRIPT);
    suite.current_dir(root).arg(side);
    suite.args(["--requirements", revision, "--timeout", SCENARIO_TIMEOUT]);
    suite
        .args(["--expected-failures", EXPECTED_FAILURES_FILE, "--output-dir"])
        .arg(results);
    Ok(suite)
}

/// Our server with the suite's fixtures behind it; killed when dropped.
struct ServerUnderTest {
    child: Child,
    url: String,
    _home: tempfile::TempDir,
}

impl ServerUnderTest {
    fn start(ringfence: &Path) -> Result<ServerUnderTest> {
        let home = tempfile::tempdir().context("cannot make a folder for the server")?;
        let mut serve = Command::new(ringfence);
        serve.args(["serve", "--conformance", "--listen", "127.0.0.1:0"]);
        serve.env("RINGFENCE_HOME", home.path()).current_dir(home.path());
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = serve.spawn().context("cannot start the server")?;
        let said = child.stderr.take().context("the server has no standard error")?;
        let mut server = ServerUnderTest {
            child,
            url: String::new(),
            _home: home,
        };
        let mut lines = BufReader::new(said).lines();
        for line in lines.by_ref() {
            let line = line.context("cannot read what the server says")?;
            if let Some((_, after)) = line.split_once("MCP at ") {
                after.split(',').next().unwrap_or(after).clone_into(&mut server.url);
                // Read to the end, so that the server never blocks on its output.
                thread::spawn(move || lines.count());
                return Ok(server);
            }
            eprintln!("{line}");
        }
        bail!("the server ended before it said where it listens")
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The scored scenarios of a revision for one side, as the suite lists them; their number must be `known`.
fn scored_scenarios(tools: &npm::NpmTools, side: &str, revision: &str, known: usize) -> Result<Vec<String>> {
    let mut list = tools.program(SUITE_SCRIPT);
    let listed = program::read_stdout(list.args(["list", "--requirements", revision]))?;
    let head = format!("{side} scenarios");
    let section = listed.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let names = section.map_while(|line| line.strip_prefix("  - "));
    let names: Vec<String> = names.map(str::to_owned).collect();
    ensure!(
        names.len() == known,
        "the suite scores {} scenarios of {revision} ({side}), and {known} were known",
        names.len()
    );
    Ok(names)
}

/// Runs the suite; returns how many scored scenarios passed, which must be all of them.
fn run_scored(suite: &mut Command, scored: &[String]) -> Result<usize> {
    let seen = program::run_watched(suite, |_| false)?;
    let missed = missed_scenarios(&seen.lines, scored);
    if !missed.is_empty() || !seen.status.success() {
        let last = seen.lines.iter().rev().take(60).rev().cloned();
        eprintln!("{}", last.collect::<Vec<_>>().join("\n"));
    }
    ensure!(missed.is_empty(), "not passed: {}", missed.join(", "));
    ensure!(seen.status.success(), "the suite ended with {}", seen.status);
    Ok(scored.len())
}

/// The scored scenarios that did not pass, or that checked nothing.
fn missed_scenarios(lines: &[String], scored: &[String]) -> Vec<String> {
    let verdicts: Vec<_> = lines.iter().filter_map(|line| parse_result_line(line)).collect();
    let passed = |name: &String| {
        let mut own = verdicts.iter().filter(|(other, ..)| other == name).peekable();
        own.peek().is_some() && own.all(|(_, passed, failed)| *passed > 0 && *failed == 0)
    };
    scored.iter().filter(|name| !passed(name)).cloned().collect()
}

/// Parses `✓ name: 3 passed, 0 failed`, with a cross where something failed.
fn parse_result_line(line: &str) -> Option<(&str, usize, usize)> {
    let rest = line.strip_prefix('✓').or_else(|| line.strip_prefix('✗'))?;
    let (name, counts) = rest.trim_start().split_once(": ")?;
    let (passed, failed) = counts.split_once(" passed, ")?;
    let failed = failed.split_once(" failed")?.0;
    Some((name, passed.parse().ok()?, failed.parse().ok()?))
}

#[cfg(test)]
mod tests;
