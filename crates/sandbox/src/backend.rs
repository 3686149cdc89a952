//! The backends: what sandboxes are made with, one folder each. Nothing outside this folder depends on which one it is.
//!
//! A [`Backend`] makes sandboxes; what it provides for each of them is in [`parts`]. The worker, its protocol, files in and
//! out, verdicts and the pool are the same for all ([why](../../../docs/adr/0046-the-seam-for-backends.md)).

mod native;
mod parts;
#[cfg(feature = "test-process")]
mod test_process;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_jail::UserIds;
use ringfence_jail::cgroup::CgroupError;

use crate::control::ControlError;
use crate::sandbox::Sandbox;
use crate::spec::{EnforcementMechanism, RuleEnforcement, Spec};
use native::{NativeBackend, NativeWorker};
pub(crate) use parts::BackendSandbox;
#[cfg(feature = "test-process")]
use test_process::{ProcessBackend, ProcessWorker};

/// The kinds of backend that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendKind {
    /// Jails on this machine, without an engine, a daemon or root.
    #[default]
    Native,
    /// The worker as an ordinary process over one stream, which contains nothing. Only tests have it, and no name that a user
    /// gives leads to it.
    #[cfg(feature = "test-process")]
    TestProcess,
}

impl BackendKind {
    /// Every kind that users can choose, in the order in which they are listed.
    pub const ALL: [BackendKind; 1] = [BackendKind::Native];

    /// The name that users write and journals record.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Native => "native",
            #[cfg(feature = "test-process")]
            BackendKind::TestProcess => "test-process",
        }
    }

    /// What a sandbox of this kind is, for people.
    pub fn description(self) -> &'static str {
        match self {
            BackendKind::Native => "a jail on this machine",
            #[cfg(feature = "test-process")]
            BackendKind::TestProcess => "an ordinary process that contains nothing, for tests",
        }
    }

    /// The kind that a user means by `name`.
    pub fn from_name(name: &str) -> Option<BackendKind> {
        BackendKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Why the backend could not make a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum BackendLaunchError {
    /// Something that the backend needs at its start is missing.
    #[error("cannot make the backend ready")]
    Ready(#[source] io::Error),
    /// The jail could not be made.
    #[error(transparent)]
    Jail(#[from] ringfence_jail::LauncherError),
    /// The control groups could not be made.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The spec asks for something that this backend cannot provide.
    #[cfg(feature = "test-process")]
    #[error("a sandbox of the backend `{backend}` cannot have {what}")]
    Unsupported {
        /// The name of the backend.
        backend: &'static str,
        /// What the spec asks for.
        what: &'static str,
    },
    /// A folder for a writable place on disk could not be made.
    #[error("cannot make the folder `{}`", path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The control channel to the first process failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The listener of notified system calls could not be used.
    #[error("cannot listen for stopped system calls")]
    Listener(#[source] io::Error),
    /// The launch thread did not finish the work.
    #[error("the work was abandoned")]
    Abandoned,
}

/// What this machine can enforce hard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSupport {
    /// The limits that hold for an execution as a whole.
    pub held: Vec<GroupLimit>,
    /// The limits that hold another way, if at all, and why.
    pub missing: Vec<(GroupLimit, String)>,
}

/// A limit on an execution as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupLimit {
    /// Memory of all processes.
    Memory,
    /// Number of processes and threads.
    Processes,
    /// The share of the machine's processors.
    Processors,
    /// Processor time of all processes.
    CpuTime,
}

/// The worker program, ready for the sandboxes of one kind of backend. Loading it takes a few milliseconds and needs nothing
/// else.
#[derive(Debug, Clone)]
pub struct WorkerProgram(LoadedWorker);

#[derive(Debug, Clone)]
enum LoadedWorker {
    Native(NativeWorker),
    #[cfg(feature = "test-process")]
    TestProcess(ProcessWorker),
}

impl WorkerProgram {
    /// Makes the embedded worker ready.
    pub fn load(kind: BackendKind) -> Result<WorkerProgram, BackendLaunchError> {
        Ok(WorkerProgram(match kind {
            BackendKind::Native => LoadedWorker::Native(NativeWorker::load()?),
            #[cfg(feature = "test-process")]
            BackendKind::TestProcess => LoadedWorker::TestProcess(ProcessWorker::load()?),
        }))
    }
}

/// Makes sandboxes; each process has one.
#[derive(Debug)]
pub enum Backend {
    /// Makes jails on this machine.
    Native(NativeBackend),
    /// Starts ordinary processes that contain nothing, for tests.
    #[cfg(feature = "test-process")]
    TestProcess(ProcessBackend),
}

impl Backend {
    /// Loads the worker and prepares the backend; `name` names what it makes outside its sandboxes, such as control groups.
    pub fn new(kind: BackendKind, name: &str) -> Result<Backend, BackendLaunchError> {
        Backend::with_worker(WorkerProgram::load(kind)?, name)
    }

    /// Prepares the backend with a worker that was loaded before.
    pub fn with_worker(worker: WorkerProgram, name: &str) -> Result<Backend, BackendLaunchError> {
        Ok(match worker.0 {
            LoadedWorker::Native(worker) => Backend::Native(NativeBackend::new(worker, name)?),
            #[cfg(feature = "test-process")]
            LoadedWorker::TestProcess(worker) => Backend::TestProcess(ProcessBackend::new(worker, name)?),
        })
    }

    /// Prepares the backend as on a machine without control groups.
    pub fn without_groups(kind: BackendKind, name: &str) -> Result<Backend, BackendLaunchError> {
        Ok(match WorkerProgram::load(kind)?.0 {
            LoadedWorker::Native(worker) => Backend::Native(NativeBackend::without_groups(worker, name)),
            #[cfg(feature = "test-process")]
            LoadedWorker::TestProcess(worker) => Backend::TestProcess(ProcessBackend::new(worker, name)?),
        })
    }

    /// The kind of this backend.
    pub fn kind(&self) -> BackendKind {
        match self {
            Backend::Native(_) => BackendKind::Native,
            #[cfg(feature = "test-process")]
            Backend::TestProcess(_) => BackendKind::TestProcess,
        }
    }

    /// The name of this backend, as users write it and journals record it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// What this machine can enforce hard.
    pub fn support(&self) -> BackendSupport {
        match self {
            Backend::Native(backend) => backend.support(),
            #[cfg(feature = "test-process")]
            Backend::TestProcess(_) => ProcessBackend::support(),
        }
    }

    /// Folders outside any sandbox that must be removed if this process dies.
    pub fn leftover_folders(&self) -> Vec<PathBuf> {
        match self {
            Backend::Native(backend) => backend.leftover_folders(),
            #[cfg(feature = "test-process")]
            Backend::TestProcess(backend) => backend.leftover_folders(),
        }
    }

    /// The mechanism that enforces each rule of `spec` here.
    pub fn enforcement(&self, spec: &Spec) -> Vec<RuleEnforcement> {
        match self {
            Backend::Native(backend) => backend.enforcement(spec),
            #[cfg(feature = "test-process")]
            Backend::TestProcess(_) => ProcessBackend::enforcement(spec),
        }
    }

    /// The rules of `spec` that are only watched, or enforced for each process alone: `--require-hard` refuses them.
    pub fn soft_rules(&self, spec: &Spec) -> Vec<RuleEnforcement> {
        let soft = |one: &RuleEnforcement| {
            matches!(
                one.mechanism,
                EnforcementMechanism::Watch | EnforcementMechanism::Rlimit
            ) && !is_hard_by_nature(one.rule)
        };
        self.enforcement(spec).into_iter().filter(soft).collect()
    }

    /// Makes a sandbox as `spec` describes it.
    pub async fn launch(&self, spec: &Arc<Spec>) -> Result<Sandbox, BackendLaunchError> {
        match self {
            Backend::Native(backend) => backend.launch(spec).await,
            #[cfg(feature = "test-process")]
            Backend::TestProcess(backend) => backend.launch(spec),
        }
    }
}

/// Whether a rule counts as hard even where it is watched or enforced for each process alone.
pub fn is_hard_by_nature(rule: &str) -> bool {
    ["proc.open_files", "proc.wall_timeout", "proc.output"].contains(&rule)
}

/// The user number for programs whose files are used again: as root a number of its own; `None` otherwise, because there is
/// only one.
pub fn choose_lasting_user() -> io::Result<Option<u32>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    Ok(Some(UserIds::choose()?.user))
}

/// Removes the control groups that a dead process called `name` left; returns their number.
pub fn remove_leftover_groups(name: &str) -> u64 {
    native::remove_leftover_groups(name)
}

/// Removes one control group and those below it, and ends the processes in them.
pub fn remove_group(folder: &Path) {
    native::remove_group(folder);
}

#[cfg(test)]
mod tests;
