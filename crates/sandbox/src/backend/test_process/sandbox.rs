//! A sandbox of this backend: the worker's process, its folders, and limits that are only watched.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::backend::parts::{FinalCounts, PreparedLimits, run_blocking};
use crate::execution::ExecutionError;
use crate::spec::Spec;
use crate::tree::{self, ProcessTotals};
use crate::verdict::ExecutionLimit;

/// How often the processes below the worker are killed before the worker is: a process may fork meanwhile.
const KILL_ROUNDS: usize = 20;

/// A worker and the folders that it uses.
#[derive(Debug)]
pub(crate) struct ProcessSandbox {
    spec: Arc<Spec>,
    process: Mutex<Child>,
    pid: i32,
    parts: ProcessParts,
    /// The most that the processes of the execution were seen to use.
    seen: ProcessTotals,
    /// Processor time that the processes had used before the execution.
    cpu_at_first: Duration,
}

/// The folders of a sandbox and their owner.
#[derive(Debug)]
pub(crate) struct ProcessParts {
    pub(super) owner: (u32, u32),
    /// The folder above its places.
    pub(super) root: PathBuf,
    pub(super) handles: Vec<OwnedFd>,
}

/// The path on this machine of a place that programs of other backends find at `path`.
pub(super) fn path_below(root: &Path, path: &str) -> String {
    root.join(path.trim_start_matches('/')).to_string_lossy().into_owned()
}

impl ProcessSandbox {
    pub(super) fn new(spec: &Arc<Spec>, process: Child, parts: ProcessParts) -> ProcessSandbox {
        ProcessSandbox {
            spec: Arc::clone(spec),
            pid: i32::try_from(process.id()).unwrap_or(i32::MAX),
            process: Mutex::new(process),
            parts,
            seen: ProcessTotals::default(),
            cpu_at_first: Duration::ZERO,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn owner(&self) -> (u32, u32) {
        self.parts.owner
    }

    pub(crate) fn handles(&self) -> &[OwnedFd] {
        &self.parts.handles
    }

    pub(crate) fn path_inside(&self, path: &str) -> String {
        path_below(&self.parts.root, path)
    }

    /// Its files are on disk.
    #[expect(clippy::unused_self, reason = "a part of every backend's sandbox")]
    pub(crate) fn held_memory(&self) -> u64 {
        0
    }

    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.lock().try_wait(), Ok(None))
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        let mut process = self.lock();
        for _ in 0..KILL_ROUNDS {
            let below = tree::processes_below(self.pid);
            if below.is_empty() {
                break;
            }
            for pid in below.into_iter().filter_map(Pid::from_raw) {
                // A process that has ended meanwhile needs no signal.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        process.kill()
    }

    pub(crate) fn end(self) -> io::Result<()> {
        self.kill()?;
        self.lock().wait().map(drop)
        // The folders are removed when this value is dropped.
    }

    /// The child limits itself; the watch does the rest.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "a part of every backend's sandbox"
    )]
    pub(crate) fn prepare_limits(&mut self, _number: u32) -> Result<PreparedLimits, ExecutionError> {
        Ok(PreparedLimits { tasks: Vec::new() })
    }

    #[expect(clippy::unused_self, reason = "a part of every backend's sandbox")]
    pub(crate) fn release_limits(&mut self) {}

    #[expect(clippy::unused_self, reason = "a part of every backend's sandbox")]
    pub(crate) fn has_group(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "a part of every backend's sandbox")]
    pub(crate) fn counts_memory(&self) -> bool {
        false
    }

    pub(crate) fn begin_watch(&mut self) {
        self.seen = ProcessTotals::default();
        // A process from which others are forked has used some for earlier executions.
        self.cpu_at_first = run_blocking(|| tree::process_totals(self.pid).cpu);
    }

    pub(crate) fn check_limits(&mut self) -> Result<Option<ExecutionLimit>, ExecutionError> {
        self.note_processes();
        match self.judge_seen() {
            Some(limit) => Ok(Some(limit)),
            None => run_blocking(|| self.check_places()).map_err(ExecutionError::Watch),
        }
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        self.seen.cpu
    }

    pub(crate) fn note_processes(&mut self) {
        let mut now = run_blocking(|| tree::process_totals(self.pid));
        now.cpu = now.cpu.saturating_sub(self.cpu_at_first);
        self.seen = self.seen.max_each(now);
    }

    pub(crate) fn final_counts(&self) -> Result<FinalCounts, ExecutionError> {
        let limit = match self.judge_seen() {
            Some(limit) => Some(limit),
            None => run_blocking(|| self.check_places()).map_err(ExecutionError::Watch)?,
        };
        Ok(FinalCounts {
            limit,
            cpu: self.seen.cpu,
            peak_memory: self.seen.memory,
            peak_tmpfs: 0,
        })
    }

    fn judge_seen(&self) -> Option<ExecutionLimit> {
        let limits = &self.spec.limits;
        // The child itself does not count as the program's.
        let own = self.seen.processes.saturating_sub(1);
        if self.seen.memory > limits.memory.get() || self.seen.too_many_mappings {
            Some(ExecutionLimit::Memory)
        } else if own > usize::try_from(limits.processes).unwrap_or(usize::MAX) {
            Some(ExecutionLimit::Processes)
        } else if self.seen.cpu >= limits.cpu_time {
            Some(ExecutionLimit::Cpu)
        } else {
            None
        }
    }

    fn check_places(&self) -> io::Result<Option<ExecutionLimit>> {
        for (place, handle) in self.spec.writable.iter().zip(&self.parts.handles) {
            let most = place.capacity();
            let held = tree::folder_usage(handle.as_fd(), most)?;
            if held.bytes > most.bytes {
                return Ok(Some(ExecutionLimit::Disk));
            }
            if held.files > most.files {
                return Ok(Some(ExecutionLimit::Inodes));
            }
        }
        Ok(None)
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessSandbox {
    fn drop(&mut self) {
        // One that was ended before is only waited for.
        let _ = self.kill();
        let _ = self.lock().wait();
        // What is left goes with the folder of the backend.
        let _ = fs::remove_dir_all(&self.parts.root);
    }
}
