//! The benchmarks: all parts in sequence, or one; built as for a release, except in a brief run.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::program;

/// The arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    /// One part only, instead of all
    #[arg(value_enum)]
    part: Option<BenchPart>,
    /// Run everything a few times, for all that does not depend on time, without an optimised build and without peers
    #[arg(long)]
    brief: bool,
}

/// A part with a program of its own, in the order in which the parts run.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum BenchPart {
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

impl BenchPart {
    fn program(self) -> &'static str {
        match self {
            BenchPart::Sandbox => "ringfence-bench",
            BenchPart::Discovery => "ringfence-bench-discovery",
            BenchPart::Schemas => "ringfence-bench-schemas",
            BenchPart::Calls => "ringfence-bench-calls",
            BenchPart::Mcp => "ringfence-bench-mcp",
            BenchPart::Durable => "ringfence-bench-durable",
            BenchPart::Egress => "ringfence-bench-egress",
            BenchPart::Hygiene => "ringfence-bench-hygiene",
        }
    }

    /// The helper programs that the part starts.
    fn helper_programs(self) -> &'static [&'static str] {
        match self {
            BenchPart::Schemas => &[],
            BenchPart::Calls => &["ringfence-upstream"],
            BenchPart::Durable => &["ringfence", "ringfence-upstream"],
            BenchPart::Sandbox | BenchPart::Discovery | BenchPart::Mcp | BenchPart::Egress | BenchPart::Hygiene => {
                &["ringfence"]
            }
        }
    }

    /// The name of the part on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Builds the programs and runs the parts; a part that fails does not stop the others.
pub(crate) fn run(root: &Path, arguments: &BenchArguments) -> Result<ExitCode> {
    let one = arguments.part.as_ref().map(std::slice::from_ref);
    let parts = one.unwrap_or_else(BenchPart::value_variants);
    build_parts(root, parts, arguments)?;
    let mut failed = Vec::new();
    for part in parts {
        println!("## {}\n", part.name());
        if let Err(error) = run_part(root, *part, arguments) {
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
fn build_parts(root: &Path, parts: &[BenchPart], arguments: &BenchArguments) -> Result<()> {
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
        for program in part.helper_programs().iter().chain([&part.program()]) {
            build.args(["--bin", program]);
        }
    }
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the benchmarks do not build");
    }
    Ok(())
}

fn run_part(root: &Path, part: BenchPart, arguments: &BenchArguments) -> Result<()> {
    let mut bench = Command::new(target_folder(root, arguments).join(part.program()));
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
fn target_folder(root: &Path, arguments: &BenchArguments) -> PathBuf {
    root.join("target").join(if arguments.brief { "debug" } else { "dist" })
}

#[cfg(test)]
mod tests;
