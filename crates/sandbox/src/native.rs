//! The native backend: jails on this machine, without an engine, a daemon or root.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_jail::cgroup::{CgroupClaim, CgroupError, Controller, HostCgroups, SandboxGroup};
use ringfence_jail::{Launcher, Plan, ProcessLimits, UserIds};
use ringfence_policy::AllowedPrograms;
use tokio::sync::oneshot;

use crate::control::{ControlChannel, ControlError};
use crate::sandbox::{Sandbox, SandboxParts, leaf_limits, leaf_name};
use crate::spec::{EnforcementMechanism, RuleEnforcement, Spec, WritableKind};
use crate::worker;

/// Why the backend could not make a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum BackendLaunchError {
    /// Something that the backend needs at its start is missing.
    #[error("cannot make the native backend ready")]
    Ready(#[source] io::Error),
    /// The jail could not be made.
    #[error(transparent)]
    Jail(#[from] ringfence_jail::LauncherError),
    /// The control groups could not be made.
    #[error(transparent)]
    Group(#[from] CgroupError),
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
    /// The controllers that are usable here.
    pub controllers: Vec<Controller>,
    /// The controllers that are not usable, and why.
    pub missing: Vec<(Controller, String)>,
}

/// The worker program in sealed memory, started as the template of every sandbox. Loading it takes a few milliseconds and
/// needs nothing else.
#[derive(Debug, Clone)]
pub struct WorkerProgram(Launcher);

impl WorkerProgram {
    /// Seals the embedded worker in memory and starts the template.
    pub fn load() -> Result<WorkerProgram, BackendLaunchError> {
        let launcher = worker::start_launcher().map_err(BackendLaunchError::Ready)?;
        Ok(WorkerProgram(launcher))
    }
}

/// The native backend; each process has one.
#[derive(Debug)]
pub struct NativeBackend {
    launcher: Launcher,
    claim: CgroupClaim,
    made: AtomicU64,
}

impl NativeBackend {
    /// Loads the worker and prepares the backend; `name` is the name of this process's control groups.
    pub fn new(name: &str) -> Result<NativeBackend, BackendLaunchError> {
        let machine = HostCgroups::detect().map_err(BackendLaunchError::Ready)?;
        NativeBackend::on_machine(&machine, name)
    }

    /// Prepares the backend with a worker that was loaded before.
    pub fn with_worker(worker: WorkerProgram, name: &str) -> Result<NativeBackend, BackendLaunchError> {
        let machine = HostCgroups::detect().map_err(BackendLaunchError::Ready)?;
        Ok(NativeBackend::assemble(worker, &machine, name))
    }

    /// Prepares the backend for a machine that is described: one without control groups, for instance.
    pub fn on_machine(machine: &HostCgroups, name: &str) -> Result<NativeBackend, BackendLaunchError> {
        Ok(NativeBackend::assemble(WorkerProgram::load()?, machine, name))
    }

    fn assemble(worker: WorkerProgram, machine: &HostCgroups, name: &str) -> NativeBackend {
        NativeBackend {
            launcher: worker.0,
            claim: CgroupClaim::new(machine, name),
            made: AtomicU64::new(0),
        }
    }

    /// What this machine can enforce hard.
    pub fn support(&self) -> BackendSupport {
        let controllers = Controller::ALL.into_iter().filter(|one| self.claim.has(*one)).collect();
        BackendSupport {
            controllers,
            missing: self.claim.missing().to_vec(),
        }
    }

    /// Folders outside any sandbox that must be removed if this process dies: its control groups.
    pub fn leftover_folders(&self) -> Vec<PathBuf> {
        self.claim.folders()
    }

    /// The mechanism that enforces each rule of `spec` here.
    pub fn enforcement(&self, spec: &Spec) -> Vec<RuleEnforcement> {
        let by = |controller, otherwise| {
            if self.claim.has(controller) {
                EnforcementMechanism::Cgroup
            } else {
                otherwise
            }
        };
        let on_disk = spec.writable.iter().any(|place| place.kind != WritableKind::Memory);
        [
            ("fs.mounts", EnforcementMechanism::Namespace),
            ("fs.mounts.access", EnforcementMechanism::Landlock),
            (
                "fs.mounts.quota",
                if on_disk {
                    EnforcementMechanism::Watch
                } else {
                    EnforcementMechanism::Quota
                },
            ),
            ("net.enabled", EnforcementMechanism::Namespace),
            ("proc.syscalls", EnforcementMechanism::Seccomp),
            ("proc.mem_limit", by(Controller::Memory, EnforcementMechanism::Watch)),
            (
                "proc.fork_limit",
                by(Controller::Processes, EnforcementMechanism::Rlimit),
            ),
            ("proc.cpu_quota", by(Controller::Cpu, EnforcementMechanism::Rlimit)),
            ("proc.cpu_time", by(Controller::CpuTime, EnforcementMechanism::Rlimit)),
            ("proc.open_files", EnforcementMechanism::Rlimit),
            ("proc.wall_timeout", EnforcementMechanism::Watch),
            ("proc.output", EnforcementMechanism::Watch),
        ]
        .into_iter()
        // The filters of the engines do not let code start a program, and the host starts none.
        .chain(
            (spec.limits.programs == AllowedPrograms::None).then_some(("proc.programs", EnforcementMechanism::Seccomp)),
        )
        .map(|(rule, by)| RuleEnforcement { rule, mechanism: by })
        .collect()
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
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let plan = self.build_plan(spec)?;
        let ids = plan.ids;
        let (answer, jailed) = oneshot::channel();
        // When the caller is gone, its jail is dropped, which ends it.
        self.launcher
            .launch_with_callback(plan, |jailed| drop(answer.send(jailed)));
        // This thread makes the groups while the launcher builds the root.
        let group = self.create_group(number)?;
        let leaf = group
            .as_ref()
            .map(|group| group.leaf(&leaf_name(1), &leaf_limits(spec)))
            .transpose()?;
        let mut jailed = jailed.await.map_err(|_| BackendLaunchError::Abandoned)??;
        let control = ControlChannel::new(jailed.control())?;
        let listener = jailed.take_listener().ok_or(BackendLaunchError::Abandoned)?;
        #[expect(
            deprecated,
            reason = "the listener never changes its number, and the other way is unsafe code"
        )]
        let listener = tokio::io::unix::AsyncFd::new(listener).map_err(BackendLaunchError::Listener)?;
        Ok(Sandbox::new(
            Arc::clone(spec),
            jailed,
            control,
            listener,
            SandboxParts { ids, group, leaf },
        ))
    }

    fn create_group(&self, number: u64) -> Result<Option<SandboxGroup>, CgroupError> {
        if self.claim.folders().is_empty() {
            return Ok(None);
        }
        self.claim.group(&format!("sandbox-{number}")).map(Some)
    }

    fn build_plan(&self, spec: &Spec) -> Result<Plan, BackendLaunchError> {
        let mut ids = UserIds::choose().map_err(BackendLaunchError::Ready)?;
        if let Some(user) = spec.user.filter(|user| *user != 0) {
            (ids.user, ids.group) = (user, user);
        }
        for folder in spec.writable.iter().filter_map(|place| place.host_folder.as_ref()) {
            make_folder(folder, ids)?;
        }
        let processors = (!self.claim.has(Controller::Cpu))
            .then(|| usize::try_from(spec.limits.cpu.as_millis().div_ceil(1000)).unwrap_or(1));
        // The first process, the child and the zygote are not the program's, and the watch must see more than the limit.
        let processes = (!self.claim.has(Controller::Processes)).then(|| u64::from(spec.limits.processes) + 6);
        let largest = spec.writable.iter().map(|place| place.quota).max().unwrap_or(0);
        Ok(Plan {
            ids,
            entries: spec.places.clone(),
            landlock_rules: spec.uses.clone(),
            limits: ProcessLimits {
                open_files: u64::from(spec.limits.open_files),
                processes,
                file_bytes: largest,
                processors,
            },
            handles: spec.writable.iter().map(|place| place.path.clone()).collect(),
        })
    }
}

/// Whether a rule counts as hard even where it is watched or enforced for each process alone.
pub fn is_hard_by_nature(rule: &str) -> bool {
    ["proc.open_files", "proc.wall_timeout", "proc.output"].contains(&rule)
}

/// Makes a folder on disk for a writable place, owned by the sandbox's user, who may have removed the permissions before.
fn make_folder(path: &Path, ids: UserIds) -> Result<(), BackendLaunchError> {
    let failed = |source| BackendLaunchError::Folder {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(ids.user), Some(ids.group)).map_err(failed)?;
    }
    Ok(())
}

/// The user number for programs whose files are used again: as root a number of its own; `None` otherwise, because there is
/// only one.
pub fn choose_lasting_user() -> io::Result<Option<u32>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    Ok(Some(UserIds::choose()?.user))
}

/// The space of the file system that holds a place.
pub(crate) fn filesystem_space(place: &impl AsFd) -> io::Result<ringfence_jail::DiskSpace> {
    ringfence_jail::disk_space(place.as_fd())
}

/// Removes the control groups that a dead process called `name` left; returns their number.
pub fn remove_leftover_groups(name: &str) -> u64 {
    let Ok(machine) = HostCgroups::detect() else { return 0 };
    let folders = machine.trees().into_iter().flat_map(|tree| {
        let beside = tree.folder.parent().map(|parent| parent.join(name));
        [Some(tree.folder.join(name)), beside]
            .into_iter()
            .flatten()
            .filter(|folder| folder.is_dir())
            .collect::<Vec<_>>()
    });
    folders.map(|folder| remove_group(&folder)).count() as u64
}

/// Removes one control group and those below it, and ends the processes in them.
pub fn remove_group(folder: &std::path::Path) {
    ringfence_jail::cgroup::remove_tree(folder);
}
