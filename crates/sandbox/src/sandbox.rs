//! A running sandbox: it has one execution at a time, and the next one is prepared ahead.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_jail::socket::{self, PairKind};
use ringfence_policy::AllowedPrograms;
use ringfence_wire::{BoundedText, ChildLimits, JobLanguage, PrepareCommand, WorkerCommand};

use crate::backend::BackendSandbox;
use crate::control::ControlChannel;
use crate::execution::{self, ConcludedExecution, ExecutionError, ExecutionTask, OutputSink, PreparedChild, Stop};
use crate::follow;
use crate::spec::{Spec, WritableKind, WritablePlace};

/// Seconds after the host's deadline at which the kernel's own limit ends a process, in case the host is late.
const CPU_GRACE_SECONDS: u64 = 2;
/// How long the first process has to kill an execution that the host ended, before the host kills the sandbox.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// A running sandbox with its worker.
pub struct Sandbox {
    pub(crate) spec: Arc<Spec>,
    /// What its backend provides.
    pub(crate) inner: BackendSandbox,
    control: ControlChannel,
    number: u32,
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
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    pub(crate) fn new(spec: Arc<Spec>, inner: BackendSandbox, control: ControlChannel) -> Sandbox {
        Sandbox {
            spec,
            inner,
            control,
            number: 0,
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
        self.inner.pid()
    }

    /// The user number of its programs, as seen from the host.
    pub fn user(&self) -> u32 {
        self.inner.owner().0
    }

    /// The handle of the writable place at `path`.
    pub(crate) fn place(&self, path: &str) -> Option<BorrowedFd<'_>> {
        let mut places = self.places();
        places.find_map(|(place, handle)| (place.path == path).then_some(handle))
    }

    /// The writable places with their handles.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&WritablePlace, BorrowedFd<'_>)> {
        let handles = self.inner.handles().iter().map(AsFd::as_fd);
        self.spec.writable.iter().zip(handles)
    }

    /// Bytes of machine memory that the sandbox's files use now. The number cannot grow while nothing runs.
    pub fn held_memory(&self) -> u64 {
        self.inner.held_memory()
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
        let limits = self.inner.prepare_limits(number)?;
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
            limits: self.child_limits(self.inner.counts_memory()),
            interpreter: BoundedText::truncated(python.as_deref().unwrap_or_default()),
            network: self.spec.network,
        });
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(theirs.as_fd())
            .chain(limits.tasks.iter().map(AsFd::as_fd))
            .collect();
        self.control.send_order(&order, &descriptors).await?;
        drop((theirs, limits));
        self.control.next_report().await?;
        let mut prepared = PreparedChild::new(number, language, ours)?;
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
            self.inner.kill().map_err(ExecutionError::Kill)?;
        }
        let ended = execution::conclude(self, &mut prepared, followed);
        self.inner.release_limits();
        ended
    }

    async fn confirm_last(&mut self) -> Result<(), ExecutionError> {
        match self.unconfirmed.take() {
            Some(over) => {
                let finished = self.finish(over.number).await;
                self.inner.release_limits();
                finished
            }
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
        if self.is_broken || self.ran_programs || keeps || !self.inner.is_alive() {
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
        !self.is_broken && self.inner.is_alive() && !self.lifetime_left().is_zero()
    }

    /// Kills all processes of the sandbox immediately.
    pub fn kill(&self) -> std::io::Result<()> {
        self.inner.kill()
    }

    /// Ends the sandbox and waits until nothing is left of it.
    pub async fn end(self) -> Result<(), ExecutionError> {
        let Sandbox {
            inner,
            prepared,
            unconfirmed,
            ..
        } = self;
        drop((prepared, unconfirmed));
        let ended = tokio::task::spawn_blocking(move || inner.end()).await;
        ended
            .map_err(|_| ExecutionError::NotPrepared)?
            .map_err(ExecutionError::Kill)
    }
}

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
