//! A running sandbox: it has one execution at a time, and the next one is prepared ahead.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_jail::cgroup::{Leaf, LeafLimits, SandboxGroup};
use ringfence_jail::socket::{self, PairKind};
use ringfence_jail::{JailedProcess, SyscallListener, UserIds};
use ringfence_policy::AllowedPrograms;
use ringfence_wire::{BoundedText, ChildLimits, JobLanguage, PrepareCommand, WorkerCommand};
use tokio::io::unix::AsyncFd;

use crate::control::ControlChannel;
use crate::execution::{self, ConcludedExecution, ExecutionError, ExecutionTask, OutputSink, PreparedChild, Stop};
use crate::follow;
use crate::spec::{Spec, WritableKind};

/// Processes of an execution that belong to Ringfence: the child, and for Python the interpreter beside it.
const OWN_PROCESSES: u64 = 2;
/// Seconds after the host's deadline at which the kernel's own limit ends a process, in case the host is late.
const CPU_GRACE_SECONDS: u64 = 2;
/// How long the first process has to kill an execution that the host ended, before the host kills the sandbox.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// A running sandbox with its worker.
pub struct Sandbox {
    pub(crate) spec: Arc<Spec>,
    pub(crate) jailed: JailedProcess,
    pub(crate) control: ControlChannel,
    pub(crate) listener: AsyncFd<SyscallListener>,
    ids: UserIds,
    group: Option<SandboxGroup>,
    number: u32,
    /// Control groups that were made ahead for the next execution.
    next_leaf: Option<Leaf>,
    prepared: Option<PreparedChild>,
    /// An execution that is over and whose end the first process has not confirmed yet.
    unconfirmed: Option<PreparedChild>,
    is_broken: bool,
    ran_programs: bool,
    created: Instant,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sandbox")
            .field("pid", &self.jailed.pid())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    pub(crate) fn new(
        spec: Arc<Spec>,
        jailed: JailedProcess,
        control: ControlChannel,
        listener: AsyncFd<SyscallListener>,
        made: SandboxParts,
    ) -> Sandbox {
        let SandboxParts { ids, group, leaf } = made;
        Sandbox {
            spec,
            jailed,
            control,
            listener,
            ids,
            group,
            number: 0,
            next_leaf: leaf,
            prepared: None,
            unconfirmed: None,
            is_broken: false,
            ran_programs: false,
            created: Instant::now(),
        }
    }

    /// The spec that the sandbox was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The process number of its first process, as seen from the host.
    pub fn pid(&self) -> i32 {
        self.jailed.pid()
    }

    /// The user number of its programs, as seen from the host.
    pub fn user(&self) -> u32 {
        self.ids.user
    }

    pub(crate) fn ids(&self) -> UserIds {
        self.ids
    }

    /// The handle of the writable place at `path`.
    pub(crate) fn place(&self, path: &str) -> Option<BorrowedFd<'_>> {
        let index = self.spec.writable.iter().position(|place| place.path == path)?;
        self.jailed.handles().get(index).map(AsFd::as_fd)
    }

    /// The writable places with their handles.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&crate::spec::WritablePlace, BorrowedFd<'_>)> {
        self.spec
            .writable
            .iter()
            .zip(self.jailed.handles().iter().map(AsFd::as_fd))
    }

    /// Makes the child of the next execution, so that it can start as soon as the job arrives.
    pub async fn prepare(&mut self, language: JobLanguage) -> Result<(), ExecutionError> {
        // The host refuses such a task before; a sandbox that runs no programs still never prepares for one.
        if language == JobLanguage::Program && self.spec.limits.programs == AllowedPrograms::None {
            return Err(ExecutionError::NoPrograms);
        }
        if self.prepared.as_ref().is_some_and(|prepared| prepared.serves(language)) {
            return Ok(());
        }
        if let Some(other) = self.prepared.take() {
            self.finish(other.number).await?;
        }
        self.confirm_last().await?;
        let result = self.try_prepare(language).await;
        self.is_broken |= result.is_err();
        result
    }

    async fn try_prepare(&mut self, language: JobLanguage) -> Result<(), ExecutionError> {
        self.number += 1;
        let number = self.number;
        let leaf = match (self.next_leaf.take(), &self.group) {
            (Some(leaf), _) => Some(leaf),
            (None, Some(group)) => Some(group.leaf(&leaf_name(number), &leaf_limits(&self.spec))?),
            (None, None) => None,
        };
        let tasks: Vec<OwnedFd> = leaf.as_ref().map(Leaf::task_files).transpose()?.unwrap_or_default();
        let (ours, theirs) = socket::pair(PairKind::Stream).map_err(ExecutionError::Socket)?;
        let python = match &self.spec.python {
            Ok(Some(path)) => Some(path.to_string_lossy().into_owned()),
            Ok(None) if language == JobLanguage::Python => return Err(ExecutionError::NoPython),
            Err(error) if language == JobLanguage::Python => {
                return Err(ExecutionError::UnusablePython(Arc::clone(error)));
            }
            Ok(None) | Err(_) => None,
        };
        let order = WorkerCommand::Prepare(PrepareCommand {
            number,
            language,
            limits: self.child_limits(leaf.as_ref().is_some_and(Leaf::counts_memory)),
            interpreter: BoundedText::truncated(python.as_deref().unwrap_or_default()),
            network: self.spec.network,
        });
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(theirs.as_fd())
            .chain(tasks.iter().map(AsFd::as_fd))
            .collect();
        self.control.send_order(&order, &descriptors).await?;
        drop((theirs, tasks));
        self.control.next_report().await?;
        let mut prepared = PreparedChild::new(number, language, ours, leaf)?;
        prepared.wait_until_ready().await?;
        self.prepared = Some(prepared);
        Ok(())
    }

    /// Limits of each process: the second line of defence behind control groups, the first where there are none.
    fn child_limits(&self, grouped: bool) -> ChildLimits {
        let memory = self.spec.limits.memory.get();
        let seconds = self.spec.limits.cpu_time.as_secs().saturating_add(CPU_GRACE_SECONDS);
        ChildLimits {
            address_space: (!grouped).then(|| memory.saturating_add(ENGINE_MEMORY)),
            private_memory: (!grouped).then_some(memory),
            cpu_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }

    /// Runs `task` to its end, whatever that is. Prepares a child if none is prepared.
    pub async fn run(
        &mut self,
        task: ExecutionTask,
        words: &mut dyn OutputSink,
        stop: &mut Stop,
    ) -> Result<ConcludedExecution, ExecutionError> {
        self.prepare(task.language()).await?;
        let Some(mut prepared) = self.prepared.take() else {
            return Err(ExecutionError::NotPrepared);
        };
        self.ran_programs |= prepared.language == JobLanguage::Program;
        let followed = follow::follow_execution(self, &mut prepared, task, words, stop).await;
        // An engine's child makes no processes and has reported its end: nothing can still run that would need confirmation
        // now.
        if prepared.language != JobLanguage::Program
            && prepared.language != JobLanguage::Python
            && execution::is_done_by_child(&followed)
        {
            let ended = execution::conclude(self, &mut prepared, followed);
            self.unconfirmed = Some(prepared);
            return ended;
        }
        // In every case nothing of the execution may go on; a sandbox that cannot ensure it is killed.
        let finished = if execution::is_done_by_child(&followed) {
            self.finish(prepared.number).await
        } else {
            self.finish_within(prepared.number, END_PATIENCE).await
        };
        if finished.is_err() {
            self.is_broken = true;
            self.jailed.kill().map_err(ExecutionError::Kill)?;
        }
        execution::conclude(self, &mut prepared, followed)
    }

    async fn confirm_last(&mut self) -> Result<(), ExecutionError> {
        match self.unconfirmed.take() {
            Some(over) => self.finish(over.number).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, number: u32) -> Result<(), ExecutionError> {
        self.control.send_order(&WorkerCommand::Finish { number }, &[]).await?;
        self.control.next_report().await?;
        Ok(())
    }

    /// Confirms the end of an execution that the host ended, within `patience`: nothing in the sandbox can delay the caller.
    async fn finish_within(&mut self, number: u32, patience: Duration) -> Result<(), ExecutionError> {
        self.control.send_order(&WorkerCommand::Finish { number }, &[]).await?;
        self.control.answer_within(patience).await?;
        Ok(())
    }

    /// Empties the writable places. A sandbox in which programs ran may keep state that no file shows (shared memory, for
    /// instance), so it is never clean again.
    pub async fn wipe(&mut self) -> Result<WipeOutcome, ExecutionError> {
        let keeps = self
            .spec
            .writable
            .iter()
            .any(|place| place.kind != WritableKind::Memory);
        if self.is_broken || self.ran_programs || keeps || !self.jailed.is_alive() {
            return Ok(WipeOutcome::Dirty);
        }
        if let Some(prepared) = self.prepared.take() {
            self.finish(prepared.number).await?;
        }
        self.confirm_last().await?;
        self.control.send_order(&WorkerCommand::Wipe, &[]).await?;
        Ok(if self.control.next_report().await.is_ok() {
            WipeOutcome::Clean
        } else {
            WipeOutcome::Dirty
        })
    }

    /// What is left of the sandbox's lifetime.
    pub(crate) fn lifetime_left(&self) -> Duration {
        self.spec.limits.lifetime.saturating_sub(self.created.elapsed())
    }

    /// Waits until nothing of the last execution is left, before its files are read.
    pub async fn confirm_finished(&mut self) -> Result<(), ExecutionError> {
        let settled = self.confirm_last().await;
        self.is_broken |= settled.is_err();
        settled
    }

    /// Whether the sandbox can run another execution.
    pub fn is_sound(&self) -> bool {
        !self.is_broken && self.jailed.is_alive() && !self.lifetime_left().is_zero()
    }

    /// Kills all processes of the sandbox immediately.
    pub fn kill(&self) -> std::io::Result<()> {
        self.jailed.kill()
    }

    /// Ends the sandbox and waits until nothing is left of it.
    pub async fn end(self) -> Result<(), ExecutionError> {
        let Sandbox {
            jailed,
            group,
            next_leaf,
            prepared,
            unconfirmed,
            ..
        } = self;
        let end = move || {
            let ended = jailed.kill_and_wait();
            // Control groups can be removed only when they are empty.
            drop((prepared, unconfirmed, next_leaf, group));
            ended
        };
        let ended = tokio::task::spawn_blocking(end).await;
        ended
            .map_err(|_| ExecutionError::NotPrepared)?
            .map(drop)
            .map_err(ExecutionError::Kill)
    }
}

/// The parts that a sandbox is made of.
#[derive(Debug)]
pub(crate) struct SandboxParts {
    pub(crate) ids: UserIds,
    pub(crate) group: Option<SandboxGroup>,
    /// The control groups of its first execution.
    pub(crate) leaf: Option<Leaf>,
}

/// The name of an execution's control groups.
pub(crate) fn leaf_name(number: u32) -> String {
    format!("x{number}")
}

/// What an execution may use in total.
pub(crate) fn leaf_limits(spec: &Spec) -> LeafLimits {
    LeafLimits {
        memory: spec.memory(),
        sockets: (spec.limits.memory.get() / SOCKET_MEMORY_DIVISOR).max(MIN_SOCKET_MEMORY),
        processes: u64::from(spec.limits.processes) + OWN_PROCESSES,
        cpu_millis: u64::from(spec.limits.cpu.as_millis()),
    }
}

/// The part of the memory limit, one in this many, that socket buffers may use where the kernel counts them separately.
const SOCKET_MEMORY_DIVISOR: u64 = 4;
const MIN_SOCKET_MEMORY: u64 = 4 << 20;

/// Memory of the engine's own code, stacks and libraries, which does not count as the program's.
const ENGINE_MEMORY: u64 = 256 << 20;

/// Whether a wiped sandbox may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WipeOutcome {
    /// The sandbox is as good as a new one.
    Clean,
    /// The sandbox must be ended and not reused.
    Dirty,
}
