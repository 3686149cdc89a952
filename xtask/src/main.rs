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
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the house rules: arrows, fences, sizes, crate roots, promises, words, generated files
    Tidy,
    /// Write the generated files under docs/reference
    Generate(generate::Arguments),
    /// Measure beside peers, in one run, and print a table
    Bench(bench::Arguments),
    /// Run every suite; installs what is missing
    Test(suite::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = program::workspace();
    match Arguments::parse().task {
        Task::Tidy => tidy::run(&root),
        Task::Generate(arguments) => generate::run(&root, &arguments),
        Task::Bench(arguments) => bench::run(&root, &arguments),
        Task::Test(arguments) => Ok(suite::run(&root, &arguments)),
    }
}
