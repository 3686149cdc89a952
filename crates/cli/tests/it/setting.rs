//! The setup of tests: a data folder, a working folder, and the program that runs in them.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The most time that a test waits for the program.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The folders in which a test runs the program.
pub(crate) struct Setting {
    folder: TempDir,
}

/// The result of one run of the program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// A process of a test; killed and reaped when dropped, also if the test fails.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that was reaped is not signalled: its id may belong to another process by now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process that does not outlive its test.
pub(crate) fn spawned(command: &mut Command) -> Running {
    Running(command.spawn().unwrap())
}

/// The program under test.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("RINGFENCE_TEST_BIN").map_or_else(|| env!("CARGO_BIN_EXE_ringfence").into(), PathBuf::from)
}

impl Setting {
    pub(crate) fn new() -> Setting {
        let setting = Setting {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(setting.path("work")).unwrap();
        setting
    }

    /// A path below the setting's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a file into the working folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.work()).env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("user"))
            .env("RINGFENCE_HOME", self.home());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        spawned(&mut self.command(args))
    }

    /// Runs the program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        finish(self.command(args), &[])
    }

    /// The same, with something on standard input.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        finish(command, input)
    }

    /// The one object that `--json` prints.
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let done = self.run(args);
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("not one JSON object: {error}\n{done:?}"))
    }
}

/// Runs `command` to its end; one that hangs is killed, and that fails the test.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Done {
    let started = Instant::now();
    let mut child = spawned(&mut command);
    let stdin = child.stdin.take();
    let input = input.to_owned();
    let feeder = thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A program that does not read all is no fault of the test.
            let _ = stdin.write_all(&input);
        }
    });
    let Output { status, stdout, stderr } = wait(child, TEST_TIMEOUT);
    feeder.join().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Done {
        code: status.code(),
        stdout: text(&stdout),
        stderr: text(&stderr),
        took: started.elapsed(),
    }
}

/// Waits for a child and what it printed.
pub(crate) fn wait(mut child: Running, patience: Duration) -> Output {
    let readers = (reader(child.stdout.take()), reader(child.stderr.take()));
    let deadline = Instant::now() + patience;
    let Some(status) = until(deadline, || child.try_wait().unwrap()) else {
        child.kill().unwrap();
        let (stdout, stderr) = (readers.0.join(), readers.1.join());
        panic!(
            "it did not end within {patience:?}: {:?} {:?}",
            stdout.map(|out| show(&out)),
            stderr.map(|err| show(&err))
        )
    };
    Output {
        status,
        stdout: readers.0.join().unwrap(),
        stderr: readers.1.join().unwrap(),
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn reader(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).unwrap();
        }
        bytes
    })
}

/// Polls `look` until it returns a value or the deadline passes.
fn until<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() > deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Polls `look` until it returns a value; the test fails if it never does.
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until(Instant::now() + Duration::from_secs(20), look).unwrap_or_else(|| panic!("never: {what}"))
}

/// Control groups of this machine whose name has `part` in it.
pub(crate) fn groups_with(part: &str) -> Vec<PathBuf> {
    fn look(folder: &Path, part: &str, depth: usize, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        {
            if entry.file_name().to_string_lossy().contains(part) {
                found.push(entry.path());
            } else if depth > 0 {
                look(&entry.path(), part, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    look(Path::new("/sys/fs/cgroup"), part, 6, &mut found);
    found
}

/// The processes of this machine whose command line has `part` in it.
pub(crate) fn processes_with(part: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&line).contains(part)
    })
    .collect()
}

/// A tool installed below `target/tools`; `None`, with a message, where it is missing.
pub(crate) fn tool(path: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().unwrap();
    // The tag is cargo's: a folder of that name elsewhere is somebody else's.
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file() && folder.join("tools").is_dir();
    let target = here.ancestors().find(is_target);
    let Some(target) = target else {
        eprintln!("SKIPPED: needs root to reach `target/tools`");
        return None;
    };
    let found = Some(target.join("tools").join(path)).filter(|found| found.exists());
    if found.is_none() {
        let required = std::env::var("RINGFENCE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "`{path}` is not installed, and must be here");
        eprintln!("SKIPPED: `{path}` is not installed; `cargo xtask test` installs it");
    }
    found
}
