//! What a backend provides for each of its sandboxes: its first process and its end, its folders, and the limits of one
//! execution after another. Everything else is the same for all backends.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use super::native::NativeSandbox;
#[cfg(feature = "test-process")]
use super::test_process::ProcessSandbox;
use crate::execution::ExecutionError;
use crate::verdict::{ExecutionLimit, Violation};

/// A sandbox as its backend made it. It has one execution at a time, and dropping it ends it.
#[derive(Debug)]
pub(crate) enum BackendSandbox {
    /// A jail on this machine.
    Native(Box<NativeSandbox>),
    /// An ordinary process that tests run.
    #[cfg(feature = "test-process")]
    TestProcess(ProcessSandbox),
}

/// What the limits of an execution need before its child starts.
#[derive(Debug)]
pub(crate) struct PreparedLimits {
    /// Files that the child writes to, to come under its limits. They go to the worker together with the order.
    pub(crate) tasks: Vec<OwnedFd>,
}

/// What the host measured of an execution that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FinalCounts {
    pub(crate) limit: Option<ExecutionLimit>,
    pub(crate) cpu: Duration,
    pub(crate) peak_memory: u64,
    pub(crate) peak_tmpfs: u64,
}

/// Calls the same method on the sandbox of whichever backend it is.
macro_rules! on_sandbox {
    ($of:expr, $sandbox:ident => $call:expr) => {
        match $of {
            BackendSandbox::Native($sandbox) => $call,
            #[cfg(feature = "test-process")]
            BackendSandbox::TestProcess($sandbox) => $call,
        }
    };
}

impl BackendSandbox {
    /// The process number of its first process, as seen from the host.
    pub(crate) fn pid(&self) -> i32 {
        on_sandbox!(self, sandbox => sandbox.pid())
    }

    /// The user and group of its files, as seen from the host.
    pub(crate) fn owner(&self) -> (u32, u32) {
        on_sandbox!(self, sandbox => sandbox.owner())
    }

    /// The handles of the writable places, in the order of the spec.
    pub(crate) fn handles(&self) -> &[OwnedFd] {
        on_sandbox!(self, sandbox => sandbox.handles())
    }

    /// The path inside at which a place is found that every sandbox has.
    pub(crate) fn path_inside<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self {
            BackendSandbox::Native(_) => Cow::Borrowed(path),
            #[cfg(feature = "test-process")]
            BackendSandbox::TestProcess(sandbox) => Cow::Owned(sandbox.path_inside(path)),
        }
    }

    /// Runs `work` on a thread whose new files belong to the sandbox's user.
    pub(crate) fn run_as_owner<T: Send>(&self, work: impl FnOnce() -> T + Send) -> thread::Result<T> {
        let (user, group) = self.owner();
        ringfence_jail::run_as_file_user(user, group, work)
    }

    /// Bytes of machine memory that its files use now. The number cannot grow while nothing runs.
    pub(crate) fn held_memory(&self) -> u64 {
        on_sandbox!(self, sandbox => sandbox.held_memory())
    }

    /// Whether the first process is still running.
    pub(crate) fn is_alive(&self) -> bool {
        on_sandbox!(self, sandbox => sandbox.is_alive())
    }

    /// Kills all of its processes immediately.
    pub(crate) fn kill(&self) -> io::Result<()> {
        on_sandbox!(self, sandbox => sandbox.kill())
    }

    /// Kills all of its processes and removes what is left of it; blocks.
    pub(crate) fn end(self) -> io::Result<()> {
        on_sandbox!(self, sandbox => sandbox.end())
    }

    /// Makes the limits of execution `number`. Those of the last one are gone then.
    pub(crate) fn prepare_limits(&mut self, number: u32) -> Result<PreparedLimits, ExecutionError> {
        on_sandbox!(self, sandbox => sandbox.prepare_limits(number))
    }

    /// Removes the limits of an execution of which nothing is left.
    pub(crate) fn release_limits(&mut self) {
        on_sandbox!(self, sandbox => sandbox.release_limits());
    }

    /// Whether something limits all processes of an execution together.
    pub(crate) fn has_group(&self) -> bool {
        on_sandbox!(self, sandbox => sandbox.has_group())
    }

    /// Whether the memory of all processes of an execution is counted together, and limited by what counts it.
    pub(crate) fn counts_memory(&self) -> bool {
        on_sandbox!(self, sandbox => sandbox.counts_memory())
    }

    /// Begins to watch the execution that was prepared.
    pub(crate) fn begin_watch(&mut self) {
        on_sandbox!(self, sandbox => sandbox.begin_watch());
    }

    /// Checks the limits that are due; returns the limit that was reached, if any.
    pub(crate) fn check_limits(&mut self) -> Result<Option<ExecutionLimit>, ExecutionError> {
        on_sandbox!(self, sandbox => sandbox.check_limits())
    }

    /// Processor time used at the last check.
    pub(crate) fn cpu_time(&self) -> Duration {
        on_sandbox!(self, sandbox => sandbox.cpu_time())
    }

    /// Records what the processes use now.
    pub(crate) fn note_processes(&mut self) {
        on_sandbox!(self, sandbox => sandbox.note_processes());
    }

    /// Checks the limits after the end and returns what was used.
    pub(crate) fn final_counts(&self) -> Result<FinalCounts, ExecutionError> {
        on_sandbox!(self, sandbox => sandbox.final_counts())
    }

    /// Waits for the next attempt that is refused and told; for ever where a backend is told of none.
    pub(crate) async fn next_violation(&self) -> Result<Violation, ExecutionError> {
        match self {
            BackendSandbox::Native(sandbox) => sandbox.next_violation().await,
            #[cfg(feature = "test-process")]
            BackendSandbox::TestProcess(_) => std::future::pending().await,
        }
    }
}

/// Runs work whose duration depends on a program's files and processes; on a runtime with several threads, other tasks go on
/// meanwhile.
pub(super) fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        _ => work(),
    }
}
