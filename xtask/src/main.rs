//! Checks the house rules, generates checked-in files, runs the suites: `cargo xtask --help`.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it starts cargo, reads the environment and speaks to a terminal"
)]

mod bench;
mod generate;
mod program;
mod suite;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checks the house rules, generates checked-in files, runs the suites
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct XtaskArguments {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Check the house rules: arrows, fences, sizes, crate roots, promises, words, generated files
    Tidy,
    /// Write the generated files under docs: the reference and the picture of the README
    Generate(generate::GenerateArguments),
    /// Measure beside peers, in one run, and print a table
    Bench(bench::BenchArguments),
    /// Run every suite; installs what is missing
    Test(suite::SuiteArguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = program::workspace();
    match XtaskArguments::parse().task {
        XtaskCommand::Tidy => tidy::run(&root),
        XtaskCommand::Generate(arguments) => generate::run(&root, &arguments),
        XtaskCommand::Bench(arguments) => bench::run(&root, &arguments),
        XtaskCommand::Test(arguments) => Ok(suite::run(&root, &arguments)),
    }
}
