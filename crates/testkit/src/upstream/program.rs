//! The program of the test servers, for tests that start it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the program of the test servers, `ringfence-upstream`, and builds it if it is missing or stale.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests need a program that they do not link"
)]
pub fn program() -> Result<PathBuf> {
    // A caller that provides the program under test also provides this one.
    if let Some(given) = std::env::var_os("RINGFENCE_TEST_BIN") {
        return Ok(PathBuf::from(given).with_file_name("ringfence-upstream"));
    }
    let test = std::env::current_exe().context("this test's own path is unknown")?;
    let folder = test.parent().and_then(Path::parent);
    let program = folder
        .context("a test lies in a folder of cargo's")?
        .join("ringfence-upstream");
    if !is_fresh(&program)? {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", "ringfence-testkit"])
            .args(["--no-default-features", "--bin", "ringfence-upstream"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .context("cannot start cargo")?;
        ensure!(built.success(), "the test servers cannot be built");
    }
    Ok(program)
}

/// Whether the program is newer than all of its sources.
fn is_fresh(program: &Path) -> Result<bool> {
    let written = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut parts = vec![sources.join("upstream.rs"), sources.join("bin/ringfence-upstream.rs")];
    let folder = sources.join("upstream");
    for part in fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))? {
        parts.push(part?.path());
    }
    let Some(built) = written(program) else {
        return Ok(false);
    };
    Ok(parts.iter().filter_map(|part| written(part)).all(|part| part < built))
}
