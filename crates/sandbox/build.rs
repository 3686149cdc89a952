//! Builds the worker as a small static program and leaves its path to `include_bytes!`.
//!
//! It is a build of its own: another profile, a static C library, its own folder under `target`. What the outer build was
//! told about flags and wrappers is not meant for it.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told by its environment and starts cargo"
)]

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

const PACKAGE: &str = "ringfence-worker";

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = here.join("../..").canonicalize()?;
    for watched in [
        "Cargo.lock",
        "Cargo.toml",
        "crates/worker",
        "crates/wire",
        "crates/jail",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let target = variable("TARGET")?;
    let folder = target_folder(&PathBuf::from(variable("OUT_DIR")?)).join("worker");
    let mut build = Command::new(variable("CARGO")?);
    build.current_dir(&root).args([
        "build",
        "--locked",
        "--profile",
        "worker",
        "--package",
        PACKAGE,
        "--bin",
        PACKAGE,
    ]);
    build.args(["--target", &target]).arg("--target-dir").arg(&folder);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("CARGO_")
            && !text.starts_with("CARGO_HOME")
            && !text.starts_with("CARGO_REGISTRIES")
            && !text.starts_with("CARGO_HTTP")
            && !text.starts_with("CARGO_NET");
        if ours || text.starts_with("RUSTC") || text == "RUSTFLAGS" || text == "CLIPPY_ARGS" {
            build.env_remove(&name);
        }
    }
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let status = build.status()?;
    if !status.success() {
        return Err(format!("building {PACKAGE} failed: {status}").into());
    }
    let program = folder.join(&target).join("worker").join(PACKAGE);
    println!("cargo::rustc-env=RINGFENCE_WORKER={}", program.display());
    Ok(())
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// The outer build's own folder: `OUT_DIR` is `<folder>/<profile>/build/<package>/out`.
fn target_folder(out: &std::path::Path) -> PathBuf {
    out.ancestors().nth(4).unwrap_or(out).to_owned()
}
