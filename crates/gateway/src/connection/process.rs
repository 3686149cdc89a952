//! The process of a stdio server: it gets only the given environment and a process group of its own, and is killed as
//! a group.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::credential::{EnvironmentLookup, Scrubber, SecretString};

/// The `PATH` of a program whose entry sets none, behind the folder it was found in.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Most lines of standard error that are kept, and most bytes of each.
const MAX_STDERR_LINES: usize = 20;
const MAX_STDERR_LINE_BYTES: usize = 400;
/// The heading above the last lines of standard error.
pub(crate) const STDERR_HEADING: &str = "; its last words:\n";
/// How long to wait for an ended program to be reaped.
const REAP_TIMEOUT: Duration = Duration::from_millis(500);

/// The program to start.
pub(crate) struct ProcessSpec<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: Vec<(String, SecretString)>,
    pub(crate) cwd: Option<&'a Path>,
}

/// A running program; dropping it kills its whole process group.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Mutex<Child>,
    group: Option<rustix::process::Pid>,
    stderr: StderrTail,
}

/// The last lines that a program wrote to its standard error.
#[derive(Debug, Default)]
pub(crate) struct StderrLines(Mutex<VecDeque<String>>);

impl StderrLines {
    pub(crate) fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lines.len() == MAX_STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns the last lines as one text.
    pub(crate) fn joined(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last: Vec<&str> = lines.iter().rev().take(5).map(String::as_str).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("no such program on `PATH`")]
    NotFound,
    #[error("{0}")]
    Spawn(#[source] std::io::Error),
    #[error("its standard streams are not there")]
    Streams,
}

/// Starts a program outside of any sandbox.
pub(crate) fn start_process(
    start: &ProcessSpec<'_>,
    environment: &EnvironmentLookup,
    scrubber: Scrubber,
) -> Result<(Arc<ServerProcess>, ChildStdout, ChildStdin), StartError> {
    let program = find_program(start.command, environment).ok_or(StartError::NotFound)?;
    let mut command = Command::new(&program);
    command
        .args(start.args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command.env("PATH", default_path(&program));
    for (name, value) in &start.env {
        command.env(name, value.reveal());
    }
    if let Some(cwd) = start.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(StartError::Spawn)?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Arc::new(ServerProcess {
        child: Mutex::new(child),
        group,
        stderr: StderrTail::new(stderr, scrubber),
    });
    match (stdin, stdout) {
        (Some(stdin), Some(stdout)) => Ok((process, stdout, stdin)),
        _ => Err(StartError::Streams),
    }
}

/// Finds the program: a path as it is, a name on this process's `PATH`.
fn find_program(command: &str, environment: &EnvironmentLookup) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command));
    }
    let path = environment("PATH").unwrap_or_else(|| DEFAULT_PATH.to_owned());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the default `PATH`: a script such as `npx` needs its interpreter, which is in the same folder.
fn default_path(program: &Path) -> OsString {
    let mut path = OsString::new();
    if let Some(folder) = program.parent().filter(|folder| folder.is_absolute()) {
        path.push(folder);
        path.push(":");
    }
    path.push(DEFAULT_PATH);
    path
}

/// Reads standard error to its end, so that the program never blocks on it.
async fn collect_stderr(mut stderr: impl AsyncRead + Unpin, words: Arc<StderrLines>, scrubber: Scrubber) {
    let mut buffer = [0u8; 4096];
    let mut line = Vec::new();
    let say = |line: &mut Vec<u8>| {
        let mut text = scrubber.clean(&String::from_utf8_lossy(line));
        if line.len() > MAX_STDERR_LINE_BYTES {
            let sure = text.len().saturating_sub(scrubber.longest_secret());
            text.truncate(text.floor_char_boundary(sure.min(MAX_STDERR_LINE_BYTES)));
        }
        line.clear();
        if !text.trim().is_empty() {
            // The text may contain anyone's personal data.
            tracing::debug!(bytes = text.len(), "server's standard error");
            tracing::trace!(line = text, "server's standard error");
            words.push(text);
        }
    };
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        // A secret at the end of the kept part is recognised only if all of it is present.
        let room = MAX_STDERR_LINE_BYTES + scrubber.longest_secret();
        for byte in buffer.get(..read).unwrap_or_default() {
            match byte {
                b'\n' => say(&mut line),
                byte if line.len() < room => line.push(*byte),
                _ => {}
            }
        }
    }
    say(&mut line);
}

/// The last lines of a program's standard error, which is read to its end.
#[derive(Debug)]
pub(crate) struct StderrTail {
    lines: Arc<StderrLines>,
    /// The task that reads it; taken by the first caller that waits for its end.
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl StderrTail {
    pub(crate) fn new(stderr: Option<impl AsyncRead + Unpin + Send + 'static>, scrubber: Scrubber) -> StderrTail {
        let lines = Arc::<StderrLines>::default();
        let listener = stderr.map(|stderr| tokio::spawn(collect_stderr(stderr, Arc::clone(&lines), scrubber)));
        StderrTail {
            lines,
            listener: Mutex::new(listener),
        }
    }

    /// Describes how the program ended, with its last lines. These may arrive after it is gone.
    pub(crate) async fn describe_exit(&self, how: &str) -> String {
        let listener = self
            .listener
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(listener) = listener {
            // A process that left the group may hold standard error open for ever.
            let _ = tokio::time::timeout(REAP_TIMEOUT, listener).await;
        }
        let words = self.last_lines();
        if words.is_empty() {
            how.to_owned()
        } else {
            format!("{how}{STDERR_HEADING}{words}")
        }
    }

    /// Returns the last lines so far.
    pub(crate) fn last_lines(&self) -> String {
        self.lines.joined()
    }
}

impl ServerProcess {
    /// Kills the whole group. The leader is not reaped before, so its id is not reused.
    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// Describes how it ended, with its last lines. Kills it if it still runs.
    pub(crate) async fn kill_and_describe(&self) -> String {
        let ended = self.wait().await;
        if ended.is_none() {
            self.kill();
        }
        let how = match ended {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("its program ended with exit code {code}"),
                (None, Some(signal)) => format!("it was killed by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            },
            None => "it closed its pipe".to_owned(),
        };
        self.stderr.describe_exit(&how).await
    }

    /// Returns the last lines so far.
    pub(crate) fn last_stderr(&self) -> String {
        self.stderr.last_lines()
    }

    async fn wait(&self) -> Option<ExitStatus> {
        let deadline = tokio::time::Instant::now() + REAP_TIMEOUT;
        loop {
            {
                let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Other processes of the group may outlive it: they are killed before its id can be reused.
                if let Some(status) = self.exit_status(&mut child) {
                    return Some(status);
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn exit_status(&self, child: &mut Child) -> Option<ExitStatus> {
        let group = self.group?;
        let options = rustix::process::WaitIdOptions::EXITED
            | rustix::process::WaitIdOptions::NOHANG
            | rustix::process::WaitIdOptions::NOWAIT;
        let exited = rustix::process::waitid(rustix::process::WaitId::Pid(group), options);
        if matches!(exited, Ok(Some(_))) {
            self.kill();
        }
        child.try_wait().ok().flatten()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let reaped = self
            .child
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .id()
            .is_none();
        if !reaped {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests;
