//! The benchmark: built as a release unless it only has to show that it works.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::program;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run everything a few times, for correctness only, without a release build
    #[arg(long)]
    brief: bool,
}

/// Builds the programs and runs the benchmark beside its peers.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
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
