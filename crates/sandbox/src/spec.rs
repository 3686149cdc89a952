//! The description of a sandbox, compiled from a policy: equal specs give equal sandboxes.

mod error;
mod nested_places;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringfence_jail::{ExecPolicy, LandlockAccess, MountAccess, RootEntry};
use ringfence_policy::{self as policy, Policy};

use crate::root;
use crate::scan::{HostEntry, HostScanner};
use crate::tree::FolderUsage;

pub use error::SpecError;

/// Writable places up to this size are in memory; larger ones are folders on disk.
const MAX_IN_MEMORY: u64 = 256 << 20;
/// The size of a writable place without a quota of its own.
const DEFAULT_QUOTA: u64 = 64 << 20;
/// The size of `/dev/shm`, where programs share memory.
const SHARED_MEMORY: u64 = 16 << 20;
/// The folder for what programs with a network need: certificates.
const NETWORK_PLACE: &str = "/run/ringfence";
const NETWORK_BYTES: u64 = 4 << 20;
const BYTES_PER_INODE: u64 = 4096;

/// Settings of the operator's machine that complete a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SpecOptions {
    /// The Python interpreter to use in place of the system's.
    pub python: Option<PathBuf>,
    /// The folder in which places that are too large for memory are made.
    pub folders: Option<PathBuf>,
    /// The folder in which kept places are found or made; without it they are made like the others.
    pub kept: Option<PathBuf>,
    /// The host's user number for programs whose files are used again.
    pub user: Option<u32>,
}

/// A sandbox's root, limits and environment, ready for a backend.
#[derive(Debug, Clone)]
pub struct Spec {
    pub(crate) places: Vec<RootEntry>,
    pub(crate) uses: Vec<(String, LandlockAccess)>,
    /// Writable places, whose handles the host keeps; the first is the workspace if there is one.
    pub(crate) writable: Vec<WritablePlace>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) limits: policy::ProgramLimits,
    /// The interpreter for Python code; `None` if the machine has none, an error if the configured one cannot be used.
    pub(crate) python: Result<Option<PathBuf>, Arc<SpecError>>,
    /// Whether programs may have network access.
    pub(crate) network: bool,
    /// The host's user number of the programs; `None`: any.
    pub(crate) user: Option<u32>,
    /// Whether a host folder is shown as it was when the spec was made.
    pub(crate) shows_host: bool,
    digest: String,
}

/// A place that programs can write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WritablePlace {
    pub(crate) path: String,
    pub(crate) quota: u64,
    pub(crate) kind: WritableKind,
    /// The host folder that was made for it; `None` for a place in memory.
    pub(crate) host_folder: Option<PathBuf>,
}

impl WritablePlace {
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self.kind, WritableKind::Folder | WritableKind::Kept)
    }

    /// The quota: bytes, and as many files as a place of this size in memory could hold.
    pub(crate) fn capacity(&self) -> FolderUsage {
        FolderUsage {
            bytes: self.quota,
            files: max_files(self.quota),
        }
    }
}

/// A writable place whose files outlive the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptPlace<'a> {
    /// The path inside the sandbox.
    pub path: &'a str,
    /// The folder on the host that holds its files.
    pub folder: &'a Path,
    /// The quota of the place.
    pub most: FolderUsage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WritableKind {
    /// In memory: the kernel enforces the quota.
    Memory,
    /// A folder made for the sandbox: the watch enforces the quota.
    Folder,
    /// A folder that outlives the sandbox: the watch enforces the quota.
    Kept,
}

/// The mechanisms that enforce rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnforcementMechanism {
    /// A control group of the whole execution.
    Cgroup,
    /// A resource limit of each process.
    Rlimit,
    /// Linux namespaces and the mounts in them.
    Namespace,
    /// The filter of system calls.
    Seccomp,
    /// Landlock, the kernel's access control for files.
    Landlock,
    /// A quota of the file system.
    Quota,
    /// The host measures and kills.
    Watch,
}

impl EnforcementMechanism {
    /// The name that results show.
    pub fn name(self) -> &'static str {
        match self {
            EnforcementMechanism::Cgroup => "cgroup",
            EnforcementMechanism::Rlimit => "rlimit",
            EnforcementMechanism::Namespace => "namespace",
            EnforcementMechanism::Seccomp => "seccomp",
            EnforcementMechanism::Landlock => "landlock",
            EnforcementMechanism::Quota => "quota",
            EnforcementMechanism::Watch => "watch",
        }
    }
}

/// A rule and the mechanism that enforces it on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleEnforcement {
    /// The key of the rule in the policy.
    pub rule: &'static str,
    /// The mechanism that enforces the rule.
    pub mechanism: EnforcementMechanism,
}

impl RuleEnforcement {
    /// How a rule that is only watched here could be enforced hard.
    pub fn hard_hint(&self) -> &'static str {
        if self.rule == "fs.mounts.quota" {
            "give places at most 256MiB and keep none: those are memory with a hard size; or run without `--require-hard`"
        } else {
            "run without `--require-hard`, or where control groups can be written: `ringfence doctor`"
        }
    }
}

impl Spec {
    /// Compiles `policy`, and scans the host folders that it names.
    pub fn new(policy: &Policy, options: &SpecOptions) -> Result<Spec, SpecError> {
        let mut spec = Spec {
            places: Vec::new(),
            uses: Vec::new(),
            writable: Vec::new(),
            env: environment(policy),
            limits: policy.limits().clone(),
            python: Ok(None),
            network: policy.net().enabled == Some(true),
            user: options.user,
            shows_host: false,
            digest: String::new(),
        };
        root::add_system(&mut spec);
        let mut scanner = HostScanner::new(&policy.fs().deny, policy.shown_folders());
        for mount in &policy.fs().mounts {
            spec.add_mount(mount, &mut scanner, options)?;
        }
        // After the mounts, because its folder may lie below one of them.
        spec.python = root::add_python(&mut spec, options.python.as_deref(), &scanner).map_err(Arc::new);
        let shared = RootEntry::Memory {
            to: "/dev/shm".to_owned(),
            bytes: SHARED_MEMORY,
            inodes: SHARED_MEMORY / BYTES_PER_INODE,
            programs: ExecPolicy::Denied,
        };
        spec.places.push(shared);
        spec.add_writable("/dev/shm", SHARED_MEMORY, WritableKind::Memory);
        if spec.network {
            spec.places.push(RootEntry::Memory {
                to: NETWORK_PLACE.to_owned(),
                bytes: NETWORK_BYTES,
                inodes: 16,
                programs: ExecPolicy::Denied,
            });
            spec.add_writable(NETWORK_PLACE, NETWORK_BYTES, WritableKind::Memory);
        }
        spec.writable.sort_by_key(|place| place.path != "/workspace");
        nested_places::check_room(policy.fs())?;
        spec.digest = spec.digest_of(policy, options);
        Ok(spec)
    }

    /// The same sandbox for a server program: it runs as long as its sandbox may, its output has no limit of its own, and
    /// its environment has more variables.
    #[must_use]
    pub fn for_server(mut self, env: impl IntoIterator<Item = (String, String)>) -> Spec {
        self.limits.wall = self.limits.lifetime;
        self.limits.output = policy::ByteSize::MAX;
        let mut all: std::collections::BTreeMap<String, String> = self.env.into_iter().collect();
        all.extend(env);
        self.env = all.into_iter().collect();
        self
    }

    /// A digest that is equal for the same policy on the same machine: the pool's key.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether sandboxes of this spec can be reused: a spec that shows a host folder hides only what was to be hidden when
    /// it was made, and one with folders of its own belongs to their owner.
    pub fn is_reusable(&self) -> bool {
        !self.shows_host && !self.writable.iter().any(WritablePlace::is_on_disk)
    }

    /// Whether some of its places are folders on disk that end with the sandbox.
    pub fn has_folders(&self) -> bool {
        self.writable.iter().any(|place| place.kind == WritableKind::Folder)
    }

    /// The folders on disk that end with the sandbox.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let passing = self.writable.iter().filter(|place| place.kind == WritableKind::Folder);
        passing.filter_map(|place| place.host_folder.as_deref())
    }

    /// The places whose files outlive the sandbox.
    pub fn kept_places(&self) -> impl Iterator<Item = KeptPlace<'_>> {
        let kept = self.writable.iter().filter(|place| place.kind == WritableKind::Kept);
        kept.filter_map(|place| {
            Some(KeptPlace {
                path: &place.path,
                folder: place.host_folder.as_deref()?,
                most: place.capacity(),
            })
        })
    }

    /// The digest of what makes a sandbox: rules about tools and network hosts are enforced elsewhere.
    fn digest_of(&self, policy: &Policy, options: &SpecOptions) -> String {
        let mut hasher = blake3::Hasher::new();
        let (fs, env, limits) = (policy.fs(), policy.env(), policy.limits());
        let python = (&options.python, self.python.is_ok());
        hasher.update(format!("{fs:?} {env:?} {limits:?} {python:?} {}", self.network).as_bytes());
        if self.writable.iter().any(WritablePlace::is_on_disk) {
            hasher.update(format!("{:?} {:?} {:?}", options.folders, options.kept, options.user).as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// How long one execution may take.
    pub fn wall(&self) -> Duration {
        self.limits.wall
    }

    /// The memory limit plus the size of the places in memory.
    pub(crate) fn memory(&self) -> u64 {
        let in_memory = self.writable.iter().filter(|place| place.kind == WritableKind::Memory);
        self.limits
            .memory
            .get()
            .saturating_add(in_memory.map(|place| place.quota).sum())
    }

    fn add_mount(
        &mut self,
        mount: &policy::Mount,
        scanner: &mut HostScanner<'_>,
        options: &SpecOptions,
    ) -> Result<(), SpecError> {
        let to = mount.path.as_str().to_owned();
        let quota = mount.quota.map_or(DEFAULT_QUOTA, policy::ByteSize::get);
        let access = match mount.access {
            policy::FileAccess::Read => MountAccess::Read,
            policy::FileAccess::Write => MountAccess::Write,
        };
        if let Some(from) = &mount.from {
            return self.add_host_mount(from, to, access, scanner);
        }
        if access == MountAccess::Read {
            let empty = RootEntry::Memory {
                to: to.clone(),
                bytes: 4096,
                inodes: 1,
                programs: ExecPolicy::Denied,
            };
            self.places.push(empty);
            self.uses.push((to, LandlockAccess::Read));
        } else if quota <= MAX_IN_MEMORY && !mount.keep {
            self.places.push(RootEntry::Memory {
                to: to.clone(),
                bytes: quota,
                inodes: max_files(quota),
                programs: ExecPolicy::Allowed,
            });
            self.add_writable(&to, quota, WritableKind::Memory);
        } else {
            let (above, kind) = match &options.kept {
                Some(kept) if mount.keep => (Some(kept), WritableKind::Kept),
                _ => (options.folders.as_ref(), WritableKind::Folder),
            };
            let above = above.ok_or_else(|| SpecError::NoFolder { path: to.clone() })?;
            let from = above.join(folder_name(&to));
            self.places.push(RootEntry::Host {
                from: from.clone(),
                to: to.clone(),
                access,
            });
            self.add_writable(&to, quota, kind);
            if let Some(place) = self.writable.last_mut() {
                place.host_folder = Some(from);
            }
        }
        Ok(())
    }

    /// Shows a path of the host; paths that `fs.deny` names are hidden.
    fn add_host_mount(
        &mut self,
        from: &Path,
        to: String,
        access: MountAccess,
        scanner: &mut HostScanner<'_>,
    ) -> Result<(), SpecError> {
        let failed = |source| SpecError::From {
            path: from.to_owned(),
            to: to.clone(),
            source,
        };
        if access == MountAccess::Write {
            let path = from.to_owned();
            return Err(SpecError::Writable { path, to });
        }
        let real = fs::canonicalize(from).map_err(failed)?;
        self.places.push(match scanner.inspect(&real)? {
            HostEntry::File => RootEntry::Host {
                from: real,
                to: to.clone(),
                access,
            },
            HostEntry::Folder { hidden } => RootEntry::FilteredHost {
                from: real,
                to: to.clone(),
                hidden: hidden.into_iter().collect(),
            },
        });
        self.shows_host = true;
        self.uses.push((to, LandlockAccess::Programs));
        Ok(())
    }

    fn add_writable(&mut self, path: &str, quota: u64, kind: WritableKind) {
        self.uses.push((path.to_owned(), LandlockAccess::Write));
        self.writable.push(WritablePlace {
            path: path.to_owned(),
            quota,
            kind,
            host_folder: None,
        });
    }
}

/// How many files a place of this size may hold.
fn max_files(quota: u64) -> u64 {
    (quota / BYTES_PER_INODE).max(16)
}

/// The folder name for a place: no two places share one.
fn folder_name(path: &str) -> String {
    path.trim_start_matches('/').replace('%', "%25").replace('/', "%2F")
}

/// The whole environment: the variables of Ringfence, then those of the policy.
fn environment(policy: &Policy) -> Vec<(String, String)> {
    let mut env = std::collections::BTreeMap::from([
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("HOME".to_owned(), "/workspace".to_owned()),
        ("TMPDIR".to_owned(), "/tmp".to_owned()),
        ("RINGFENCE".to_owned(), "1".to_owned()),
    ]);
    env.extend(policy.env().iter().map(|(name, value)| (name.clone(), value.clone())));
    env.into_iter().collect()
}
