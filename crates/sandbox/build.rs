//! Builds the worker as a small static program and passes its path to `include_bytes!`.
//!
//! It is a separate build with another profile, a static C library and its own folder under `target`. The flags and wrappers
//! of the outer build do not apply to it.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told by its environment and starts cargo"
)]

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
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
    let out = PathBuf::from(variable("OUT_DIR")?);
    let (target_folder, outer_profile) = folder_and_profile(&out).ok_or("`OUT_DIR` is not below a target folder")?;
    // Only a build for distribution is worth the time of an LTO.
    let profile = if outer_profile == "dist" {
        "worker-dist"
    } else {
        "worker"
    };
    let folder = target_folder.join("worker");
    let mut build = Command::new(variable("CARGO")?);
    build.current_dir(&root).args([
        "build",
        "--locked",
        "--profile",
        profile,
        "--package",
        PACKAGE,
        "--bin",
        PACKAGE,
    ]);
    build.args(["--target", &target]).arg("--target-dir").arg(&folder);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        // The job server stays: both builds together use as many cores as there are.
        let ours = text.starts_with("CARGO_")
            && text != "CARGO_MAKEFLAGS"
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
    let program = folder.join(&target).join(profile).join(PACKAGE);
    println!("cargo::rustc-env=RINGFENCE_WORKER={}", program.display());
    Ok(())
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// The outer build's folder and the name of its profile's folder: `OUT_DIR` is `<folder>/<profile>/build/<package>/out`.
fn folder_and_profile(out: &Path) -> Option<(&Path, &str)> {
    let profile = out.ancestors().nth(3)?;
    Some((profile.parent()?, profile.file_name()?.to_str()?))
}
