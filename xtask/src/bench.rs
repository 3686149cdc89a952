//! The benchmarks: all parts in sequence, or one; built as for a release, except in a brief run.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::program;

/// The arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One part only, instead of all
    #[arg(value_enum)]
    part: Option<Part>,
    /// Run everything a few times, for all that does not depend on time, without an optimised build and without peers
    #[arg(long)]
    brief: bool,
}

/// A part with a program of its own, in the order in which the parts run.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Part {
    /// Confined programs, beside other ways to start one
    Sandbox,
    /// Search among many tools, and what a task costs a model's context
    Discovery,
    /// Stubs of real schemas before the real compilers
    Schemas,
    /// Tool calls from a program, beside a bare client and peers
    Calls,
    /// The front doors, as clients see them
    Mcp,
    /// Waiting for an approval: releasing a sandbox, resuming, recording every call
    Durable,
    /// Egress to the network, beside a plain proxy
    Egress,
    /// Detectors of personal data beside others, on labelled texts; what the examples spare a model
    Hygiene,
}

impl Part {
    fn program(self) -> &'static str {
        match self {
            Part::Sandbox => "ringfence-bench",
            Part::Discovery => "ringfence-bench-discovery",
            Part::Schemas => "ringfence-bench-schemas",
            Part::Calls => "ringfence-bench-calls",
            Part::Mcp => "ringfence-bench-mcp",
            Part::Durable => "ringfence-bench-durable",
            Part::Egress => "ringfence-bench-egress",
            Part::Hygiene => "ringfence-bench-hygiene",
        }
    }

    /// The helper programs that the part starts.
    fn starts(self) -> &'static [&'static str] {
        match self {
            Part::Schemas => &[],
            Part::Calls => &["ringfence-upstream"],
            Part::Durable => &["ringfence", "ringfence-upstream"],
            Part::Sandbox | Part::Discovery | Part::Mcp | Part::Egress | Part::Hygiene => &["ringfence"],
        }
    }

    /// The name of the part on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Builds the programs and runs the parts; a part that fails does not stop the others.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let one = arguments.part.as_ref().map(std::slice::from_ref);
    let parts = one.unwrap_or_else(Part::value_variants);
    build(root, parts, arguments)?;
    let mut failed = Vec::new();
    for part in parts {
        println!("## {}\n", part.name());
        if let Err(error) = measure(root, *part, arguments) {
            eprintln!("{}: {error:#}", part.name());
            failed.push(part.name());
        }
        println!();
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Builds all parts in one build.
fn build(root: &Path, parts: &[Part], arguments: &Arguments) -> Result<()> {
    let mut build = program::cargo(root);
    build.args(["build", "--locked"]);
    if arguments.brief {
        // The whole workspace decides the features, as for the tests: next to nothing is built again.
        build.arg("--workspace");
    } else {
        build.args([
            "--profile",
            "dist",
            "--package",
            "ringfence-testkit",
            "--package",
            "ringfence-cli",
        ]);
    }
    for part in parts {
        for program in part.starts().iter().chain([&part.program()]) {
            build.args(["--bin", program]);
        }
    }
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the benchmarks do not build");
    }
    Ok(())
}

fn measure(root: &Path, part: Part, arguments: &Arguments) -> Result<()> {
    let mut bench = Command::new(target(root, arguments).join(part.program()));
    if arguments.brief {
        bench.arg("--brief");
    }
    let status = bench.status().context("cannot start the benchmark")?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

/// The folder that cargo builds into.
fn target(root: &Path, arguments: &Arguments) -> PathBuf {
    root.join("target").join(if arguments.brief { "debug" } else { "dist" })
}

#[cfg(test)]
mod tests;
