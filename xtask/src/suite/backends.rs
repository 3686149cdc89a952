//! Runs what every backend's sandboxes do once more, with each other backend that can be had here.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{StepOutcome, checks, passed_with};
use crate::program;

/// The backends besides the usual one, which the step of all tests runs with.
const OTHER_BACKENDS: [&str; 1] = ["test-process"];

/// The variable that tells the suite its backend.
const BACKEND_VARIABLE: &str = "RINGFENCE_TEST_BACKEND";

/// The tests that are about jails.
const JAIL_TESTS: &str = "jail::";

pub(super) fn run(root: &Path) -> Result<StepOutcome> {
    let built = program::build_programs(root, &["test", "--workspace", "--no-run"])?;
    let suite = built
        .iter()
        .find(|built| built.test && built.package == "ringfence-sandbox" && built.name == "it")
        .context("cargo built no suite of sandboxes")?;
    let mut passed = Vec::new();
    for backend in OTHER_BACKENDS {
        eprintln!("-- {} {} with {backend}", suite.package, suite.name);
        let mut command = Command::new(&suite.path);
        command.args(["--show-output", "--skip", JAIL_TESTS]);
        command.current_dir(&suite.folder).env(BACKEND_VARIABLE, backend);
        let tally = checks::run_counted_with_retry(&mut command)?;
        if tally.passed == 0 {
            bail!("no test ran with the backend `{backend}`");
        }
        passed.push(format!("{backend}: {tally}"));
    }
    Ok(passed_with(&passed.join(", ")))
}
