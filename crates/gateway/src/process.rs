//! A stdio server's process: only the environment it was given, a group of its own, killed as a whole.

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

use crate::credential::{Environment, Scrubber, Secret};

/// What a program finds on its `PATH` when its entry gives none, after the folder it was found in.
const PLAIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Lines of standard error that are remembered, and the bytes of each.
const LINES: usize = 20;
const LINE: usize = 400;
/// What stands before them.
pub(crate) const LAST_WORDS: &str = "; its last words:\n";
/// How long an ended program has to be reaped.
const REAP: Duration = Duration::from_millis(500);

/// What to start.
pub(crate) struct Start<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: Vec<(String, Secret)>,
    pub(crate) cwd: Option<&'a Path>,
}

/// A running program; dropping it kills its whole group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Mutex<Child>,
    group: Option<rustix::process::Pid>,
    stderr: StderrTail,
}

/// The last lines a program wrote to its standard error.
#[derive(Debug, Default)]
pub(crate) struct Words(Mutex<VecDeque<String>>);

impl Words {
    pub(crate) fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last of them, in one text.
    pub(crate) fn last(&self) -> String {
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
pub(crate) fn start(
    start: &Start<'_>,
    environment: &Environment,
    scrubber: Scrubber,
) -> Result<(Arc<Process>, ChildStdout, ChildStdin), StartError> {
    let program = find(start.command, environment).ok_or(StartError::NotFound)?;
    let mut command = Command::new(&program);
    command
        .args(start.args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command.env("PATH", plain_path(&program));
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
    let process = Arc::new(Process {
        child: Mutex::new(child),
        group,
        stderr: StderrTail::new(stderr, scrubber),
    });
    match (stdin, stdout) {
        (Some(stdin), Some(stdout)) => Ok((process, stdout, stdin)),
        _ => Err(StartError::Streams),
    }
}

/// The program: a path as it is, a name as our own `PATH` has it.
fn find(command: &str, environment: &Environment) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command));
    }
    let path = environment("PATH").unwrap_or_else(|| PLAIN_PATH.to_owned());
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

/// A script such as `npx` needs its interpreter, which lies beside it.
fn plain_path(program: &Path) -> OsString {
    let mut path = OsString::new();
    if let Some(folder) = program.parent().filter(|folder| folder.is_absolute()) {
        path.push(folder);
        path.push(":");
    }
    path.push(PLAIN_PATH);
    path
}

/// Reads standard error to its end, so that the program never waits for a reader.
async fn listen(mut stderr: impl AsyncRead + Unpin, words: Arc<Words>, scrubber: Scrubber) {
    let mut buffer = [0u8; 4096];
    let mut line = Vec::new();
    let say = |line: &mut Vec<u8>| {
        let mut text = scrubber.clean(&String::from_utf8_lossy(line));
        if line.len() > LINE {
            let sure = text.len().saturating_sub(scrubber.longest());
            text.truncate(text.floor_char_boundary(sure.min(LINE)));
        }
        line.clear();
        if !text.trim().is_empty() {
            // It may be about anybody.
            tracing::debug!(bytes = text.len(), "server's standard error");
            tracing::trace!(line = text, "server's standard error");
            words.push(text);
        }
    };
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        // A secret that begins in what is kept is known as one only when it is there to its end.
        let room = LINE + scrubber.longest();
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
    words: Arc<Words>,
    /// The task that reads it, until somebody waited for its end.
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl StderrTail {
    pub(crate) fn new(stderr: Option<impl AsyncRead + Unpin + Send + 'static>, scrubber: Scrubber) -> StderrTail {
        let words = Arc::<Words>::default();
        let listener = stderr.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&words), scrubber)));
        StderrTail {
            words,
            listener: Mutex::new(listener),
        }
    }

    /// How the program ended, with what it said last. That may still be on the way when it is gone.
    pub(crate) async fn after(&self, how: &str) -> String {
        let listener = self
            .listener
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(listener) = listener {
            // Somebody who left its group may hold standard error open for ever.
            let _ = tokio::time::timeout(REAP, listener).await;
        }
        let words = self.words();
        if words.is_empty() {
            how.to_owned()
        } else {
            format!("{how}{LAST_WORDS}{words}")
        }
    }

    /// What it said last.
    pub(crate) fn words(&self) -> String {
        self.words.last()
    }
}

impl Process {
    /// Kills the whole group. The leader is not reaped before, so its number is still its own.
    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// How it ended and what it said last. Ends it if it still runs.
    pub(crate) async fn end(&self) -> String {
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
        self.stderr.after(&how).await
    }

    /// What it said last.
    pub(crate) fn words(&self) -> String {
        self.stderr.words()
    }

    async fn wait(&self) -> Option<ExitStatus> {
        let deadline = tokio::time::Instant::now() + REAP;
        loop {
            {
                let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Others of its group may live on after it: they go before its number is free again.
                if let Some(status) = self.ended(&mut child) {
                    return Some(status);
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn ended(&self, child: &mut Child) -> Option<ExitStatus> {
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

impl Drop for Process {
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
