//! The backends: what sandboxes are made with. Nothing outside this folder depends on which one it is.

mod native;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use native::filesystem_space;
pub use native::{
    BackendLaunchError, BackendSupport, choose_lasting_user, is_hard_by_nature, remove_group, remove_leftover_groups,
};
use native::{NativeBackend, NativeWorker};

use crate::sandbox::Sandbox;
use crate::spec::{RuleEnforcement, Spec};

/// The kinds of backend that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendKind {
    /// Jails on this machine, without an engine, a daemon or root.
    #[default]
    Native,
}

impl BackendKind {
    /// Every kind, in the order in which they are listed for users.
    pub const ALL: [BackendKind; 1] = [BackendKind::Native];

    /// The name that users write and journals record.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Native => "native",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<BackendKind> {
        BackendKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The worker program, ready for the sandboxes of one kind of backend. Loading it takes a few milliseconds and needs nothing
/// else.
#[derive(Debug, Clone)]
pub struct WorkerProgram(LoadedWorker);

#[derive(Debug, Clone)]
enum LoadedWorker {
    Native(NativeWorker),
}

impl WorkerProgram {
    /// Makes the embedded worker ready.
    pub fn load(kind: BackendKind) -> Result<WorkerProgram, BackendLaunchError> {
        Ok(WorkerProgram(match kind {
            BackendKind::Native => LoadedWorker::Native(NativeWorker::load()?),
        }))
    }
}

/// Makes sandboxes; each process has one.
#[derive(Debug)]
pub enum Backend {
    /// Makes jails on this machine.
    Native(NativeBackend),
}

impl Backend {
    /// Loads the worker and prepares the backend; `name` names what it makes outside its sandboxes, such as control groups.
    pub fn new(kind: BackendKind, name: &str) -> Result<Backend, BackendLaunchError> {
        Backend::with_worker(WorkerProgram::load(kind)?, name)
    }

    /// Prepares the backend with a worker that was loaded before.
    pub fn with_worker(worker: WorkerProgram, name: &str) -> Result<Backend, BackendLaunchError> {
        match worker.0 {
            LoadedWorker::Native(worker) => NativeBackend::new(worker, name).map(Backend::Native),
        }
    }

    /// Prepares the backend as on a machine without control groups.
    pub fn without_groups(kind: BackendKind, name: &str) -> Result<Backend, BackendLaunchError> {
        match WorkerProgram::load(kind)?.0 {
            LoadedWorker::Native(worker) => Ok(Backend::Native(NativeBackend::without_groups(worker, name))),
        }
    }

    /// The kind of this backend.
    pub fn kind(&self) -> BackendKind {
        match self {
            Backend::Native(_) => BackendKind::Native,
        }
    }

    /// The name of this backend, as users write it and journals record it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// What this machine can enforce hard.
    pub fn support(&self) -> BackendSupport {
        match self {
            Backend::Native(native) => native.support(),
        }
    }

    /// Folders outside any sandbox that must be removed if this process dies.
    pub fn leftover_folders(&self) -> Vec<PathBuf> {
        match self {
            Backend::Native(native) => native.leftover_folders(),
        }
    }

    /// The mechanism that enforces each rule of `spec` here.
    pub fn enforcement(&self, spec: &Spec) -> Vec<RuleEnforcement> {
        match self {
            Backend::Native(native) => native.enforcement(spec),
        }
    }

    /// The rules of `spec` that are only watched, or enforced for each process alone: `--require-hard` refuses them.
    pub fn soft_rules(&self, spec: &Spec) -> Vec<RuleEnforcement> {
        match self {
            Backend::Native(native) => native.soft_rules(spec),
        }
    }

    /// Makes a sandbox as `spec` describes it.
    pub async fn launch(&self, spec: &Arc<Spec>) -> Result<Sandbox, BackendLaunchError> {
        match self {
            Backend::Native(native) => native.launch(spec).await,
        }
    }
}
