//! One probe run: an execution in a sandbox of its own, and its results.

use std::fs;
use std::time::{Duration, Instant};

use ringfence_sandbox::{ConcludedExecution, ExecutionTask, OutputSink, RunProgram, Sandbox, StandardStream, Stop};

use super::{ProbeError, ProbeRunner};
use crate::attempt::AttemptLine;
use crate::attempt::hog::HeldAmount;

/// The results of one execution.
#[derive(Debug)]
pub(crate) struct ProbeRun {
    pub(crate) ended: ConcludedExecution,
    pub(crate) stdout: String,
    /// The time from the job to the verdict, on the host's clock.
    pub(crate) took: Duration,
    /// Number of processes of the execution that still existed afterwards.
    pub(crate) left: usize,
}

impl ProbeRun {
    /// The reports that attempts printed.
    pub(crate) fn attempt_lines(&self) -> Vec<AttemptLine> {
        self.stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The amount that a hog reported; `None` if it printed no report.
    pub(crate) fn held_amount(&self) -> Option<usize> {
        self.stdout
            .lines()
            .find_map(|line| serde_json::from_str::<HeldAmount>(line).ok())
            .map(|said| said.held)
    }
}

/// Called with all output so far.
pub(crate) type OutputCallback<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

/// Collects a program's output, and calls back after each piece.
pub(crate) struct CollectedOutput<'a> {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) told: Option<OutputCallback<'a>>,
}

impl CollectedOutput<'_> {
    pub(crate) fn new() -> CollectedOutput<'static> {
        CollectedOutput {
            stdout: Vec::new(),
            stderr: Vec::new(),
            told: None,
        }
    }
}

impl OutputSink for CollectedOutput<'_> {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        match output {
            StandardStream::Stderr => self.stderr.extend_from_slice(bytes),
            StandardStream::Stdout => {
                self.stdout.extend_from_slice(bytes);
                if let Some(told) = self.told.as_mut() {
                    told(&self.stdout);
                }
            }
        }
    }
}

/// A task that runs a program by its path.
pub(crate) fn program_task(path: &str, args: Vec<String>) -> ExecutionTask {
    ExecutionTask {
        args,
        ..ExecutionTask::new(RunProgram::Named(path.to_owned()))
    }
}

/// A task that runs a shell script.
pub(crate) fn shell_task(source: &str) -> ExecutionTask {
    let kind = RunProgram::Shell {
        file_name: "probe".to_owned(),
        source: source.to_owned(),
    };
    ExecutionTask::new(kind)
}

impl ProbeRunner<'_> {
    /// Runs `task` in a new sandbox and ends the sandbox.
    pub(crate) async fn run_task(
        &self,
        settings: &[(&str, &str)],
        task: ExecutionTask,
    ) -> Result<ProbeRun, ProbeError> {
        let mut sandbox = self.launch_sandbox(settings).await?;
        let shot = run_in_sandbox(&mut sandbox, task, &mut CollectedOutput::new()).await;
        sandbox.end().await?;
        shot
    }

    /// Makes a sandbox of the policy under test with `settings` that override it.
    pub(crate) async fn launch_sandbox(&self, settings: &[(&str, &str)]) -> Result<Sandbox, ProbeError> {
        Ok(self.backend.launch(&self.build_spec(settings)?).await?)
    }
}

/// Runs `task` in `sandbox`.
pub(crate) async fn run_in_sandbox(
    sandbox: &mut Sandbox,
    task: ExecutionTask,
    kept: &mut CollectedOutput<'_>,
) -> Result<ProbeRun, ProbeError> {
    let (_switch, mut stop) = Stop::new();
    let started = Instant::now();
    let ended = sandbox.run(task, kept, &mut stop).await?;
    let took = started.elapsed();
    let stdout = String::from_utf8_lossy(&kept.stdout).into_owned();
    Ok(ProbeRun {
        ended,
        stdout,
        took,
        left: remaining_processes(sandbox.pid()).await,
    })
}

/// Counts processes that exist for longer than the kernel needs to remove them.
async fn remaining_processes(first: i32) -> usize {
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
