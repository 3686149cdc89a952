//! Runs every suite, one step after another; the first failure ends it.

mod backends;
mod checks;
mod conformance;
mod examples;
mod install;
mod npm;
mod ordinary;
mod skips;
mod test_tally;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct SuiteArguments {
    /// Install nothing, and do not look at what is missing
    #[arg(long)]
    fast: bool,
    /// Only these steps, in their order
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<SuiteStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SuiteStep {
    Install,
    Format,
    Clippy,
    Tests,
    Backends,
    Conformance,
    Ordinary,
    Tidy,
    Docs,
    Examples,
    Bench,
}

/// The outcome of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
enum StepOutcome {
    /// The step passed, with a detail such as how many tests ran.
    Passed(String),
    /// The step had nothing to do here, for this reason; it does not count.
    Absent(String),
}

/// Runs the chosen steps until one fails.
pub(crate) fn run(root: &Path, arguments: &SuiteArguments) -> ExitCode {
    let steps = chosen_steps(arguments);
    let mut passed = 0;
    for step in steps {
        let name = step
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned());
        eprintln!("== {name}");
        let start = Instant::now();
        match step.run(root) {
            Ok(StepOutcome::Passed(words)) => {
                passed += 1;
                eprintln!("== {name}: passed in {:.1} s{words}", start.elapsed().as_secs_f64());
            }
            Ok(StepOutcome::Absent(reason)) => eprintln!("== {name}: {reason}"),
            Err(error) => {
                eprintln!("== {name}: failed: {error:#}");
                println!("{passed} passed, 1 failed");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{passed} passed, 0 failed");
    ExitCode::SUCCESS
}

fn chosen_steps(arguments: &SuiteArguments) -> Vec<SuiteStep> {
    let wanted = |step: &SuiteStep| arguments.only.is_empty() || arguments.only.contains(step);
    let possible = |step: &SuiteStep| *step != SuiteStep::Install || !arguments.fast;
    SuiteStep::value_variants()
        .iter()
        .copied()
        .filter(|step| wanted(step) && possible(step))
        .collect()
}

impl SuiteStep {
    fn run(self, root: &Path) -> Result<StepOutcome> {
        match self {
            Self::Install => install::run(root),
            Self::Format => checks::check_format(root),
            Self::Clippy => checks::run_clippy(root),
            Self::Tests => checks::run_tests(root),
            Self::Backends => backends::run(root),
            Self::Conformance => conformance::run(root),
            Self::Ordinary => ordinary::run(root),
            Self::Tidy => checks::run_own_task(root, &["tidy"]),
            Self::Docs => checks::build_docs(root),
            Self::Examples => examples::run(root),
            Self::Bench => checks::run_own_task(root, &["bench", "--brief"]),
        }
    }
}

/// A detail for the line with the time of the step.
fn passed_with(words: &str) -> StepOutcome {
    let separator = if words.is_empty() { "" } else { ": " };
    StepOutcome::Passed(format!("{separator}{words}"))
}

#[cfg(test)]
mod tests;
