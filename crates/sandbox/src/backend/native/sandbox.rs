//! A sandbox of this backend: a jail, its control groups, and the listener for refused system calls.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ringfence_jail::cgroup::{Leaf, LeafLimits, SandboxGroup};
use ringfence_jail::{JailedProcess, ListenerEvent, StoppedCall, SyscallListener, UserIds};
use tokio::io::unix::AsyncFd;

use super::jailed_place::JailedPlace;
use super::watch::LimitWatch;
use crate::backend::parts::{FinalCounts, PreparedLimits};
use crate::execution::ExecutionError;
use crate::spec::Spec;
use crate::verdict::{ExecutionLimit, Violation};

/// Processes of an execution that belong to Ringfence: the child, and for Python the interpreter beside it.
const OWN_PROCESSES: u64 = 2;
/// The part of the memory limit, one in this many, that socket buffers may use where the kernel counts them separately.
const SOCKET_MEMORY_DIVISOR: u64 = 4;
const MIN_SOCKET_MEMORY: u64 = 4 << 20;

/// A jail with its control groups.
#[derive(Debug)]
pub(crate) struct NativeSandbox {
    place: JailedPlace,
    listener: AsyncFd<SyscallListener>,
    ids: UserIds,
    group: Option<SandboxGroup>,
    /// Control groups that were made ahead for the next execution.
    next_leaf: Option<Leaf>,
    /// Control groups of the execution that is prepared, runs, or has ended and is not confirmed yet.
    leaf: Option<Leaf>,
    watch: Option<LimitWatch>,
}

/// The parts that a jailed sandbox is made of.
#[derive(Debug)]
pub(super) struct NativeParts {
    pub(super) ids: UserIds,
    pub(super) group: Option<SandboxGroup>,
    /// The control groups of its first execution.
    pub(super) leaf: Option<Leaf>,
}

impl NativeSandbox {
    pub(super) fn new(
        spec: &Arc<Spec>,
        jailed: JailedProcess,
        listener: AsyncFd<SyscallListener>,
        made: NativeParts,
    ) -> NativeSandbox {
        let NativeParts { ids, group, leaf } = made;
        NativeSandbox {
            place: JailedPlace {
                spec: Arc::clone(spec),
                jailed,
            },
            listener,
            ids,
            group,
            next_leaf: leaf,
            leaf: None,
            watch: None,
        }
    }

    /// The process number of its first process, as seen from the host.
    pub(crate) fn pid(&self) -> i32 {
        self.place.pid()
    }

    /// The user and group of its files, as seen from the host.
    pub(crate) fn owner(&self) -> (u32, u32) {
        (self.ids.user, self.ids.group)
    }

    /// The handles of the writable places, in the order of the spec.
    pub(crate) fn handles(&self) -> &[OwnedFd] {
        self.place.jailed.handles()
    }

    /// Bytes of machine memory that its files use.
    pub(crate) fn held_memory(&self) -> u64 {
        self.place.held_memory()
    }

    /// Whether the first process is still running.
    pub(crate) fn is_alive(&self) -> bool {
        self.place.jailed.is_alive()
    }

    /// Kills all of its processes immediately.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.place.jailed.kill()
    }

    /// Kills all of its processes and removes what is left of it; blocks.
    pub(crate) fn end(self) -> io::Result<()> {
        let NativeSandbox {
            place,
            group,
            next_leaf,
            leaf,
            ..
        } = self;
        let ended = place.jailed.kill_and_wait();
        // Control groups can be removed only when they are empty.
        drop((leaf, next_leaf, group));
        ended.map(drop)
    }

    /// Makes the control groups of execution `number`. Those of the last one are removed.
    pub(crate) fn prepare_limits(&mut self, number: u32) -> Result<PreparedLimits, ExecutionError> {
        self.release_limits();
        let leaf = match (self.next_leaf.take(), &self.group) {
            (Some(leaf), _) => Some(leaf),
            (None, Some(group)) => Some(group.leaf(&leaf_name(number), &leaf_limits(&self.place.spec))?),
            (None, None) => None,
        };
        let tasks = leaf.as_ref().map(Leaf::task_files).transpose()?.unwrap_or_default();
        self.leaf = leaf;
        Ok(PreparedLimits { tasks })
    }

    /// Removes the control groups of an execution of which nothing is left.
    pub(crate) fn release_limits(&mut self) {
        self.leaf = None;
    }

    /// Whether something limits all processes of an execution together.
    pub(crate) fn has_group(&self) -> bool {
        self.leaf.is_some()
    }

    /// Whether the memory of all processes of an execution is counted together, and limited by what counts it.
    pub(crate) fn counts_memory(&self) -> bool {
        self.leaf.as_ref().is_some_and(Leaf::counts_memory)
    }

    /// Begins to watch the execution that was prepared.
    pub(crate) fn begin_watch(&mut self) {
        self.watch = Some(LimitWatch::new(&self.place));
    }

    /// Checks the limits that are due; returns the limit that was reached, if any.
    pub(crate) fn check_limits(&mut self) -> Result<Option<ExecutionLimit>, ExecutionError> {
        let watch = self.watch.as_mut().ok_or(ExecutionError::NotPrepared)?;
        watch.check(&self.place, self.leaf.as_ref())
    }

    /// Processor time used at the last check.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.watch.as_ref().map_or(Duration::ZERO, LimitWatch::cpu)
    }

    /// Records what the processes use now.
    pub(crate) fn note_processes(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.note_processes(&self.place);
        }
    }

    /// Checks the limits after the end and returns what was used.
    pub(crate) fn final_counts(&self) -> Result<FinalCounts, ExecutionError> {
        let watch = self.watch.as_ref().ok_or(ExecutionError::NotPrepared)?;
        watch.final_counts(&self.place, self.leaf.as_ref())
    }

    /// Waits for the next system call that is refused and told.
    pub(crate) async fn next_violation(&self) -> Result<Violation, ExecutionError> {
        loop {
            let mut guard = self.listener.readable().await.map_err(ExecutionError::Watch)?;
            match guard.get_inner().refuse_next().map_err(ExecutionError::Watch)? {
                ListenerEvent::Refused(stopped) => return Ok(violation(stopped)),
                ListenerEvent::Idle => guard.clear_ready(),
                // The descriptor stays ready for ever now. Whatever ended the processes is seen on the pipe.
                ListenerEvent::Closed => return std::future::pending().await,
            }
        }
    }
}

fn violation(stopped: StoppedCall) -> Violation {
    Violation {
        kind: "syscall",
        detail: stopped
            .name()
            .map_or_else(|| format!("system call {}", stopped.number), str::to_owned),
        rule: "proc.syscalls",
    }
}

/// The name of an execution's control groups.
pub(super) fn leaf_name(number: u32) -> String {
    format!("x{number}")
}

/// What an execution may use in total.
pub(super) fn leaf_limits(spec: &Spec) -> LeafLimits {
    LeafLimits {
        memory: spec.memory(),
        sockets: (spec.limits.memory.get() / SOCKET_MEMORY_DIVISOR).max(MIN_SOCKET_MEMORY),
        processes: u64::from(spec.limits.processes) + OWN_PROCESSES,
        cpu_millis: u64::from(spec.limits.cpu.as_millis()),
    }
}
