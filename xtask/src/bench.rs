//! The benchmark: built as a release unless it only has to show that it works.

use std::path::Path;
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
    /// Search among many tools
    Discovery,
    /// Stubs of real schemas before the real compilers
    Schemas,
}

impl Part {
    fn program(self) -> &'static str {
        match self {
            Part::Discovery => "ringfence-bench-discovery",
            Part::Schemas => "ringfence-bench-schemas",
        }
    }
}

/// Runs one part's program, which takes no other program.
fn part(root: &Path, part: Part, arguments: &Arguments) -> Result<ExitCode> {
    let mut cargo = program::cargo(root);
    cargo.args([
        "run",
        "--locked",
        "--package",
        "ringfence-testkit",
        "--no-default-features",
    ]);
    if !arguments.brief {
        cargo.arg("--release");
    }
    cargo.args(["--bin", part.program()]);
    if arguments.brief {
        cargo.args(["--", "--brief"]);
    }
    let status = cargo.status().context("cannot start cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
    let profile = if arguments.brief { "debug" } else { "release" };
    let target = root.join("target").join(profile);
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
