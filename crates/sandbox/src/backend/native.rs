//! The native backend: jails on this machine, without an engine, a daemon or root.

mod jailed_place;
mod locks;
mod pinned;
mod sandbox;
mod watch;

use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_jail::cgroup::{CgroupClaim, CgroupError, Controller, HostCgroups, SandboxGroup};
use ringfence_jail::{Launcher, Plan, ProcessLimits, SealedProgram, UserIds};
use ringfence_policy::AllowedPrograms;
use tokio::sync::oneshot;

use super::parts::BackendSandbox;
use super::{BackendLaunchError, BackendSupport, GroupLimit};
use crate::control::ControlChannel;
use crate::sandbox::Sandbox;
use crate::spec::{EnforcementMechanism, RuleEnforcement, Spec, WritableKind};
use crate::worker;
pub(super) use sandbox::NativeSandbox;
use sandbox::{NativeParts, leaf_limits, leaf_name};

/// The worker program in sealed memory, started as the template of every sandbox.
#[derive(Debug, Clone)]
pub(super) struct NativeWorker(Launcher);

impl NativeWorker {
    /// Seals the embedded worker in memory and starts the template.
    pub(super) fn load() -> Result<NativeWorker, BackendLaunchError> {
        let program = SealedProgram::new(worker::WORKER_PROGRAM).map_err(BackendLaunchError::Ready)?;
        Ok(NativeWorker(
            Launcher::start(program).map_err(BackendLaunchError::Ready)?,
        ))
    }
}

/// Makes jails, each in control groups of its own where this machine has them.
#[derive(Debug)]
pub struct NativeBackend {
    launcher: Launcher,
    claim: CgroupClaim,
    made: AtomicU64,
}

impl NativeBackend {
    /// Prepares the backend; `name` is the name of this process's control groups.
    pub(super) fn new(worker: NativeWorker, name: &str) -> Result<NativeBackend, BackendLaunchError> {
        let machine = HostCgroups::detect().map_err(BackendLaunchError::Ready)?;
        Ok(NativeBackend::on_machine(worker, &machine, name))
    }

    /// Prepares the backend as on a machine without control groups.
    pub(super) fn without_groups(worker: NativeWorker, name: &str) -> NativeBackend {
        let machine = HostCgroups {
            mounts: String::new(),
            own: String::new(),
        };
        NativeBackend::on_machine(worker, &machine, name)
    }

    fn on_machine(worker: NativeWorker, machine: &HostCgroups, name: &str) -> NativeBackend {
        NativeBackend {
            launcher: worker.0,
            claim: CgroupClaim::new(machine, name),
            made: AtomicU64::new(0),
        }
    }

    /// What this machine can enforce hard.
    pub(super) fn support(&self) -> BackendSupport {
        let held = Controller::ALL.into_iter().filter(|one| self.claim.has(*one));
        let missing = self.claim.missing().iter();
        BackendSupport {
            held: held.map(group_limit).collect(),
            missing: missing.map(|(one, why)| (group_limit(*one), why.clone())).collect(),
        }
    }

    /// Folders outside any sandbox that must be removed if this process dies: its control groups.
    pub(super) fn leftover_folders(&self) -> Vec<PathBuf> {
        self.claim.folders()
    }

    /// The mechanism that enforces each rule of `spec` here.
    pub(super) fn enforcement(&self, spec: &Spec) -> Vec<RuleEnforcement> {
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

    /// Makes a sandbox as `spec` describes it.
    pub(super) async fn launch(&self, spec: &Arc<Spec>) -> Result<Sandbox, BackendLaunchError> {
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
        let made = NativeSandbox::new(spec, jailed, listener, NativeParts { ids, group, leaf });
        Ok(Sandbox::new(
            Arc::clone(spec),
            BackendSandbox::Native(Box::new(made)),
            control,
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

/// The space of the file system that holds a place.
fn filesystem_space(place: &impl AsFd) -> io::Result<ringfence_jail::DiskSpace> {
    ringfence_jail::disk_space(place.as_fd())
}

fn group_limit(controller: Controller) -> GroupLimit {
    match controller {
        Controller::Memory => GroupLimit::Memory,
        Controller::Processes => GroupLimit::Processes,
        Controller::Cpu => GroupLimit::Processors,
        Controller::CpuTime => GroupLimit::CpuTime,
    }
}

/// Removes the control groups that a dead process called `name` left; returns their number.
pub(super) fn remove_leftover_groups(name: &str) -> u64 {
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
pub(super) fn remove_group(folder: &Path) {
    ringfence_jail::cgroup::remove_tree(folder);
}
