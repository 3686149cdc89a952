//! Runs each example as a reader would run it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{StepOutcome, checks, passed_with};
use crate::program;

const EXAMPLES_FOLDER: &str = "examples";

pub(super) fn run(root: &Path) -> Result<StepOutcome> {
    let scripts = example_scripts(&root.join(EXAMPLES_FOLDER))?;
    if scripts.is_empty() {
        return Ok(StepOutcome::Absent("no examples/*.sh".to_owned()));
    }
    let ringfence = program::ringfence(root)?;
    let programs = ringfence.parent().context("the built program has no folder")?;
    for script in &scripts {
        eprintln!("-- {}", script.display());
        let home = tempfile::tempdir().context("cannot make a folder for the example")?;
        let mut bash = Command::new("bash");
        bash.arg(script)
            .current_dir(root)
            .env("PATH", path_with_first(programs)?)
            .env("RINGFENCE_HOME", home.path());
        checks::run_command(&mut bash)?;
    }
    Ok(passed_with(&format!("{} examples ran", scripts.len())))
}

/// The scripts of a folder, sorted by name; none where there is no folder.
fn example_scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))? {
        let path = entry
            .with_context(|| format!("cannot list `{}`", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The caller's `PATH` with one folder before it.
fn path_with_first(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
    env::join_paths(folders).with_context(|| format!("`{}` cannot be on the PATH", folder.display()))
}

#[cfg(test)]
mod tests;
