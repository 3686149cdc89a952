//! The benchmark: built as a release unless it only has to show that it works.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::program;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One part only, instead of the programs beside their peers
    #[arg(value_enum)]
    part: Option<Part>,
    /// Run everything a few times, for correctness only, without a release build
    #[arg(long)]
    brief: bool,
}

/// A part with a program of its own.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Part {
    /// Tool calls from a program, beside a bare client
    Calls,
    /// Search among many tools
    Discovery,
    /// The way out to the network, beside a plain proxy
    Egress,
    /// The front doors, as clients see them
    Mcp,
    /// Stubs of real schemas before the real compilers
    Schemas,
}

impl Part {
    fn program(self) -> &'static str {
        match self {
            Part::Calls => "ringfence-bench-calls",
            Part::Discovery => "ringfence-bench-discovery",
            Part::Egress => "ringfence-bench-egress",
            Part::Mcp => "ringfence-bench-mcp",
            Part::Schemas => "ringfence-bench-schemas",
        }
    }
}

/// Builds one part's program and what it starts, and runs it.
fn part(root: &Path, part: Part, arguments: &Arguments) -> Result<ExitCode> {
    let mut build = program::cargo(root);
    build.args(["build", "--locked", "--package", "ringfence-testkit"]);
    match part {
        // Its calls go to a server of its own.
        Part::Calls => build.args(["--bin", "ringfence-upstream"]),
        Part::Egress | Part::Mcp => build.args(["--package", "ringfence-cli", "--bin", "ringfence"]),
        Part::Discovery | Part::Schemas => build.arg("--no-default-features"),
    };
    build.args(["--bin", part.program()]);
    if !arguments.brief {
        build.arg("--release");
    }
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the benchmark does not build");
    }
    let mut bench = std::process::Command::new(target(root, arguments).join(part.program()));
    if arguments.brief {
        bench.arg("--brief");
    }
    let status = bench.status().context("cannot start the benchmark")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where what was built lies.
fn target(root: &Path, arguments: &Arguments) -> PathBuf {
    root.join("target")
        .join(if arguments.brief { "debug" } else { "release" })
}

/// Builds the programs and runs the benchmark beside its peers.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    if let Some(one) = arguments.part {
        return part(root, one, arguments);
    }
    let mut build = program::cargo(root);
    build.args([
        "build",
        "--locked",
        "--package",
        "ringfence-testkit",
        "--package",
        "ringfence-cli",
    ]);
    if !arguments.brief {
        build.arg("--release");
    }
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the benchmark does not build");
    }
    let target = target(root, arguments);
    let mut bench = std::process::Command::new(target.join("ringfence-bench"));
    bench.arg(target.join("ringfence"));
    if arguments.brief {
        bench.arg("--brief");
    }
    let status = bench.status().context("cannot start the benchmark")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
