//! Starts other programs: the cargo that started this one, with output read or relayed line by line.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The variables that `cargo run` sets for this program; a cargo started from here must not inherit them.
const CARGO_RUN_VARIABLES: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_",
];

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// The cargo that started this program, in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if CARGO_RUN_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// A command as a person would type it, without its environment.
pub(crate) fn display_command(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The project's files as paths from the root: what git tracks or would track, without links and deleted files.
pub(crate) fn project_files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    // The folder may belong to another user, as in a container that mounts it.
    git.current_dir(root).args(["-c", "safe.directory=*", "ls-files", "-z"]);
    git.args(["--cached", "--others", "--exclude-standard", "--deduplicate"]);
    let listed = read_stdout(&mut git)?;
    let is_file = |path: &&str| root.join(path).symlink_metadata().is_ok_and(|found| found.is_file());
    let files: Vec<_> = listed
        .split_terminator('\0')
        .filter(is_file)
        .map(str::to_owned)
        .collect();
    if files.is_empty() {
        bail!("git lists no files in `{}`", root.display());
    }
    Ok(files)
}

/// A program or test program that cargo built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltProgram {
    pub(crate) package: String,
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) test: bool,
    pub(crate) path: PathBuf,
}

/// The `ringfence` program, built if necessary. The whole workspace decides the features, as for the tests.
pub(crate) fn ringfence(root: &Path) -> Result<PathBuf> {
    let built = build_programs(root, &["build", "--workspace", "--bin", "ringfence"])?;
    let found = built.into_iter().find(|built| built.name == "ringfence" && !built.test);
    found
        .map(|built| built.path)
        .context("cargo built no program named `ringfence`")
}

/// Builds with the given arguments; returns the programs.
pub(crate) fn build_programs(root: &Path, arguments: &[&str]) -> Result<Vec<BuiltProgram>> {
    let mut cargo = cargo(root);
    cargo
        .args(arguments)
        .args(["--locked", "--message-format=json-render-diagnostics"]);
    cargo.stderr(Stdio::inherit());
    let said = read_stdout(&mut cargo)?;
    Ok(said.lines().filter_map(executable).collect())
}

fn executable(message: &str) -> Option<BuiltProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let package = message.get("package_id")?.as_str()?.rsplit_once('#')?.1;
    Some(BuiltProgram {
        package: package.split('@').next()?.to_owned(),
        folder: manifest.parent()?.to_owned(),
        name: message.get("target")?.get("name")?.as_str()?.to_owned(),
        test: message.get("profile")?.get("test")?.as_bool()?,
        path: message.get("executable")?.as_str()?.into(),
    })
}

/// The standard output of a command that must succeed; its standard error is shown only when it fails.
pub(crate) fn read_stdout(command: &mut Command) -> Result<String> {
    let name = display_command(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{name}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{name}` ended with {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{name}` wrote something that is not text"))
}

/// The status and output of a command that was watched.
#[derive(Debug)]
pub(crate) struct WatchedCommand {
    pub(crate) status: ExitStatus,
    pub(crate) lines: Vec<String>,
}

/// Runs a command, displays each `wanted` line as it comes, and returns all of them.
pub(crate) fn run_watched(command: &mut Command, wanted: fn(&str) -> bool) -> Result<WatchedCommand> {
    run_relayed(command, wanted, io::stdout(), io::stderr())
}

/// Runs a command in the same way, with the displayed lines going elsewhere.
pub(crate) fn run_relayed(
    command: &mut Command,
    wanted: fn(&str) -> bool,
    out: impl Write,
    err: impl Write + Send,
) -> Result<WatchedCommand> {
    let name = display_command(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let kept = thread::scope(|scope| -> io::Result<Vec<String>> {
        let errors = scope.spawn(|| stderr.map_or_else(|| Ok(Vec::new()), |pipe| pass_lines(pipe, wanted, err)));
        let mut lines = stdout.map_or_else(|| Ok(Vec::new()), |pipe| pass_lines(pipe, wanted, out))?;
        let said = errors
            .join()
            .map_err(|_| io::Error::other("the reader of standard error panicked"))?;
        lines.extend(said?);
        Ok(lines)
    });
    let status = child.wait().with_context(|| format!("cannot wait for `{name}`"))?;
    let lines = kept.with_context(|| format!("cannot read what `{name}` says"))?;
    Ok(WatchedCommand { status, lines })
}

fn pass_lines(from: impl Read, wanted: fn(&str) -> bool, mut to: impl Write) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if wanted(&text) {
            to.write_all(&line)?;
        }
        lines.push(text);
        line.clear();
    }
    to.flush()?;
    Ok(lines)
}

#[cfg(test)]
mod tests;
