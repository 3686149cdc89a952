//! The Python interpreter that the operator configured. It is queried once for its prefixes: only it knows them, as in a
//! virtual environment.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// An interpreter that has not started after this time counts as failed.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const PREFIX_SCRIPT: &str = "import sys; print(sys.prefix); print(sys.base_prefix)";

/// What the interpreter reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PythonInterpreter {
    /// The path as configured: a virtual environment recognizes itself by it.
    pub(crate) path: PathBuf,
    /// The folders that hold its library, without duplicates.
    pub(crate) prefixes: Vec<PathBuf>,
}

static KNOWN_INTERPRETERS: Mutex<Option<HashMap<PathBuf, PythonInterpreter>>> = Mutex::new(None);

/// Queries the interpreter at `path` for its prefixes; a known interpreter is not queried again.
pub(crate) fn query_interpreter(path: &Path) -> io::Result<PythonInterpreter> {
    let path = std::path::absolute(path)?;
    let known =
        |asked: &Option<HashMap<PathBuf, PythonInterpreter>>| asked.as_ref().and_then(|all| all.get(&path).cloned());
    if let Some(known) = known(&KNOWN_INTERPRETERS.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(known);
    }
    let interpreter = PythonInterpreter {
        prefixes: parse_prefixes(&run_query(&path)?)?,
        path: path.clone(),
    };
    let mut asked = KNOWN_INTERPRETERS.lock().unwrap_or_else(PoisonError::into_inner);
    asked.get_or_insert_default().insert(path, interpreter.clone());
    Ok(interpreter)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator's own interpreter, asked outside because only it knows what to show inside"
)]
fn run_query(path: &Path) -> io::Result<String> {
    let mut child = Command::new(path)
        .args(["-I", "-c", PREFIX_SCRIPT])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > START_TIMEOUT {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            "it is no Python: it does not say where its library is",
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| io::Error::other("its folders are not UTF-8"))
}

fn parse_prefixes(answer: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in answer.lines() {
        let prefix = PathBuf::from(line);
        // The root of the file system is never a library.
        if !prefix.is_absolute() || prefix.parent().is_none() || !prefix.is_dir() {
            return Err(io::Error::other(format!(
                "`{line}` cannot be the folder of its library"
            )));
        }
        if !found.iter().any(|known| prefix.starts_with(known)) {
            found.push(prefix);
        }
    }
    if found.is_empty() {
        return Err(io::Error::other("it does not say where its library is"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
