//! A backend for tests: the worker as an ordinary process over one relayed stream. **It contains nothing.** It shows that
//! everything above a backend does its work without a jail, and is the only user of the relay until a backend needs it whose
//! sandboxes are reached over one stream.
//!
//! Its processes have a user number of their own where the tests run as root, and the worker's own filters; they see the
//! machine's files, processes and network.

mod sandbox;

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_jail::{SealedProgram, UserIds};
use ringfence_policy::AllowedPrograms;

use super::parts::BackendSandbox;
use super::{BackendLaunchError, BackendSupport, GroupLimit};
use crate::control::ControlChannel;
use crate::relay::spawn_relay;
use crate::sandbox::Sandbox;
use crate::spec::{EnforcementMechanism, RuleEnforcement, Spec, WritablePlace};
use crate::worker;
pub(super) use sandbox::{ProcessParts, ProcessSandbox};

const NAME: &str = "test-process";

/// The worker program in sealed memory.
#[derive(Debug, Clone)]
pub(super) struct ProcessWorker(Arc<SealedProgram>);

impl ProcessWorker {
    /// Seals the embedded worker in memory.
    pub(super) fn load() -> Result<ProcessWorker, BackendLaunchError> {
        let program = SealedProgram::new(worker::WORKER_PROGRAM).map_err(BackendLaunchError::Ready)?;
        Ok(ProcessWorker(Arc::new(program)))
    }
}

/// Starts workers whose places are below one folder.
#[derive(Debug)]
pub struct ProcessBackend {
    worker: ProcessWorker,
    folder: PathBuf,
    made: AtomicU64,
}

impl ProcessBackend {
    /// Makes the folder called `name` for the places of all sandboxes.
    pub(super) fn new(worker: ProcessWorker, name: &str) -> Result<ProcessBackend, BackendLaunchError> {
        tracing::warn!("the backend `{NAME}` is for tests: what runs in its sandboxes is not contained");
        let folder = std::env::temp_dir().join(format!("{name}-{NAME}"));
        let failed = |source| BackendLaunchError::Folder {
            path: folder.clone(),
            source,
        };
        fs::create_dir(&folder).map_err(failed)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o711)).map_err(failed)?;
        Ok(ProcessBackend {
            worker,
            folder,
            made: AtomicU64::new(0),
        })
    }

    /// No limit holds for an execution as a whole.
    pub(super) fn support() -> BackendSupport {
        let missing = [
            GroupLimit::Memory,
            GroupLimit::Processes,
            GroupLimit::Processors,
            GroupLimit::CpuTime,
        ];
        let why = "the backend is for tests and has no control groups";
        BackendSupport {
            held: Vec::new(),
            missing: missing.map(|limit| (limit, why.to_owned())).to_vec(),
        }
    }

    /// The folder of all sandboxes.
    pub(super) fn leftover_folders(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    /// The mechanisms that enforce rules; a rule that is not listed is not enforced.
    pub(super) fn enforcement(spec: &Spec) -> Vec<RuleEnforcement> {
        let programs =
            (spec.limits.programs == AllowedPrograms::None).then_some(("proc.programs", EnforcementMechanism::Seccomp));
        [
            ("fs.mounts.quota", EnforcementMechanism::Watch),
            ("proc.syscalls", EnforcementMechanism::Seccomp),
            ("proc.mem_limit", EnforcementMechanism::Watch),
            ("proc.fork_limit", EnforcementMechanism::Watch),
            ("proc.cpu_time", EnforcementMechanism::Rlimit),
            ("proc.wall_timeout", EnforcementMechanism::Watch),
            ("proc.output", EnforcementMechanism::Watch),
        ]
        .into_iter()
        .chain(programs)
        .map(|(rule, mechanism)| RuleEnforcement { rule, mechanism })
        .collect()
    }

    /// Starts a worker whose places are as `spec` describes them.
    pub(super) fn launch(&self, spec: &Arc<Spec>) -> Result<Sandbox, BackendLaunchError> {
        check_supported(spec)?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let root = self.folder.join(format!("sandbox-{number}"));
        let ids = UserIds::choose().map_err(BackendLaunchError::Ready)?;
        let handles = make_places(&root, spec, ids)?;
        let (ours, theirs) = UnixStream::pair().map_err(BackendLaunchError::Ready)?;
        let process = self
            .start_worker(&root, theirs.into(), ids)
            .map_err(BackendLaunchError::Ready)?;
        let spec = Arc::new(with_places_below(spec, &root));
        let made = ProcessSandbox::new(
            &spec,
            process,
            ProcessParts {
                owner: (ids.user, ids.group),
                root,
                handles,
            },
        );
        // From here on an error drops what was made, which ends it.
        ours.set_nonblocking(true).map_err(BackendLaunchError::Ready)?;
        let stream = tokio::net::UnixStream::from_std(ours).map_err(BackendLaunchError::Ready)?;
        let socket = spawn_relay(stream).map_err(BackendLaunchError::Ready)?;
        let control = ControlChannel::new(socket.as_fd())?;
        Ok(Sandbox::new(spec, BackendSandbox::TestProcess(made), control))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this backend is an ordinary process, which is what tests want of it"
    )]
    fn start_worker(&self, root: &Path, stream: OwnedFd, ids: UserIds) -> io::Result<Child> {
        let program = format!("/proc/self/fd/{}", self.worker.0.as_fd().as_raw_fd());
        let mut command = Command::new(program);
        command.arg0("ringfence-worker").arg("relay").arg(root);
        command.env_clear().current_dir("/").stderr(Stdio::null());
        command
            .stdin(Stdio::from(stream.try_clone()?))
            .stdout(Stdio::from(stream));
        if rustix::process::geteuid().is_root() {
            command.uid(ids.user).gid(ids.group);
        }
        command.spawn()
    }
}

impl Drop for ProcessBackend {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "a folder of tests is left");
        }
    }
}

/// Refuses what needs a jail.
fn check_supported(spec: &Spec) -> Result<(), BackendLaunchError> {
    let unsupported = |what| Err(BackendLaunchError::Unsupported { backend: NAME, what });
    if spec.network {
        return unsupported("a network of its own");
    }
    if spec.shows_host() {
        return unsupported("folders of the host");
    }
    if spec.writable.iter().any(WritablePlace::is_on_disk) {
        return unsupported("places on disk");
    }
    Ok(())
}

/// Makes the writable places as folders below `root`; returns handles on them, in the order of the spec.
fn make_places(root: &Path, spec: &Spec, ids: UserIds) -> Result<Vec<OwnedFd>, BackendLaunchError> {
    let make = |place: &Path| -> io::Result<OwnedFd> {
        fs::create_dir_all(place)?;
        fs::set_permissions(place, Permissions::from_mode(0o755))?;
        if rustix::process::geteuid().is_root() {
            chown(place, Some(ids.user), Some(ids.group))?;
        }
        Ok(OwnedFd::from(fs::File::open(place)?))
    };
    let folder_of = |place: &str| root.join(place.trim_start_matches('/'));
    let places = spec.writable.iter().map(|place| folder_of(&place.path));
    places
        .map(|path| make(&path).map_err(|source| BackendLaunchError::Folder { path, source }))
        .collect()
}

/// The same spec for programs that know their places by the paths of this machine.
fn with_places_below(spec: &Spec, root: &Path) -> Spec {
    let mut spec = spec.clone();
    let places: Vec<String> = spec.writable.iter().map(|place| place.path.clone()).collect();
    for (_, value) in spec.env.iter_mut().filter(|(_, value)| places.contains(value)) {
        *value = sandbox::path_below(root, value);
    }
    spec
}
