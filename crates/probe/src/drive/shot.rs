//! One probe run: an execution in a sandbox of its own, and its results.

use std::fs;
use std::time::{Duration, Instant};

use ringfence_sandbox::{Ended, Output, Sandbox, Stop, Task, TaskKind, Words};

use super::{Drive, ProbeError};
use crate::attempt::Line;
use crate::attempt::hog::Held;

/// The results of one execution.
#[derive(Debug)]
pub(crate) struct Shot {
    pub(crate) ended: Ended,
    pub(crate) stdout: String,
    /// The time from the job to the verdict, on the host's clock.
    pub(crate) took: Duration,
    /// Number of processes of the execution that still existed afterwards.
    pub(crate) left: usize,
}

impl Shot {
    /// The reports that attempts printed.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The amount that a hog reported; `None` if it printed no report.
    pub(crate) fn held(&self) -> Option<usize> {
        self.stdout
            .lines()
            .find_map(|line| serde_json::from_str::<Held>(line).ok())
            .map(|said| said.held)
    }
}

/// Called with all output so far.
pub(crate) type Told<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

/// Collects a program's output, and calls back after each piece.
pub(crate) struct Kept<'a> {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) told: Option<Told<'a>>,
}

impl Kept<'_> {
    pub(crate) fn new() -> Kept<'static> {
        Kept {
            stdout: Vec::new(),
            stderr: Vec::new(),
            told: None,
        }
    }
}

impl Words for Kept<'_> {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        match output {
            Output::Stderr => self.stderr.extend_from_slice(bytes),
            Output::Stdout => {
                self.stdout.extend_from_slice(bytes);
                if let Some(told) = self.told.as_mut() {
                    told(&self.stdout);
                }
            }
        }
    }
}

/// A task that runs a program by its path.
pub(crate) fn program(path: &str, args: Vec<String>) -> Task {
    Task {
        kind: TaskKind::Program {
            program: path.to_owned(),
        },
        args,
        stdin: None,
        door: None,
        wall: None,
        network: None,
        again: None,
    }
}

/// A task that runs a shell script.
pub(crate) fn shell(source: &str) -> Task {
    let kind = TaskKind::Shell {
        file_name: "probe".to_owned(),
        source: source.to_owned(),
    };
    Task {
        kind,
        args: Vec::new(),
        stdin: None,
        door: None,
        wall: None,
        network: None,
        again: None,
    }
}

impl Drive<'_> {
    /// Runs `task` in a new sandbox and ends the sandbox.
    pub(crate) async fn shoot(&self, settings: &[(&str, &str)], task: Task) -> Result<Shot, ProbeError> {
        let mut sandbox = self.launch(settings).await?;
        let shot = run_in(&mut sandbox, task, &mut Kept::new()).await;
        sandbox.end().await?;
        shot
    }

    /// Makes a sandbox of the policy under test with `settings` that override it.
    pub(crate) async fn launch(&self, settings: &[(&str, &str)]) -> Result<Sandbox, ProbeError> {
        Ok(self.native.launch(&self.spec(settings)?).await?)
    }
}

/// Runs `task` in `sandbox`.
pub(crate) async fn run_in(sandbox: &mut Sandbox, task: Task, kept: &mut Kept<'_>) -> Result<Shot, ProbeError> {
    let (_switch, mut stop) = Stop::new();
    let started = Instant::now();
    let ended = sandbox.run(task, kept, &mut stop).await?;
    let took = started.elapsed();
    let stdout = String::from_utf8_lossy(&kept.stdout).into_owned();
    Ok(Shot {
        ended,
        stdout,
        took,
        left: left_below(sandbox.pid()).await,
    })
}

/// Counts processes that exist for longer than the kernel needs to remove them.
async fn left_below(first: i32) -> usize {
    for _ in 0..50 {
        if descendants(first).is_empty() {
            return 0;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    descendants(first).len()
}

/// Every visible process below `pid`.
pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut waiting = vec![pid];
    while let Some(pid) = waiting.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for list in tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        {
            let children: Vec<i32> = list.split_whitespace().filter_map(|child| child.parse().ok()).collect();
            found.extend(&children);
            waiting.extend(children);
        }
    }
    found
}
