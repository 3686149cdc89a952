//! Compiles a plan to steps: everything that can be decided in advance is decided here, so that the copy of the template
//! only acts.

use std::collections::BTreeSet;
use std::ffi::{CString, NulError};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::plan::{ExecPolicy, MountAccess, Plan, RootEntry};
use crate::steps::{BuildStep, ConfinementSteps, EMPTY_FOLDER, HiddenKind, StepName};
use crate::sys::mount::attr;

/// Parts of `/proc` that change the machine even for users other than root: shown read-only.
const PROC_READ_ONLY: &[&str] = &["proc/sys"];
/// Parts of `/proc` that reveal or change the machine: hidden.
const PROC_HIDDEN_FILES: &[&str] = &[
    "proc/sysrq-trigger",
    "proc/kcore",
    "proc/kmsg",
    "proc/keys",
    "proc/timer_list",
    "proc/kallsyms",
    "proc/sched_debug",
    "proc/latency_stats",
    "proc/vmallocinfo",
    "proc/pagetypeinfo",
    "proc/slabinfo",
    "proc/kpagecount",
    "proc/kpageflags",
    "proc/kpagecgroup",
    "proc/modules",
    "proc/iomem",
    "proc/ioports",
    "proc/config.gz",
    "proc/cmdline",
    "proc/diskstats",
    "proc/partitions",
];
const PROC_HIDDEN_FOLDERS: &[&str] = &[
    "proc/acpi",
    "proc/scsi",
    "proc/asound",
    "proc/driver",
    "proc/tty",
    "proc/dynamic_debug",
    "proc/pressure",
];

impl ConfinementSteps<'static> {
    /// Compiles `plan` to its steps.
    pub(crate) fn compile(plan: &Plan) -> Result<ConfinementSteps<'static>, NulError> {
        let mut steps = ConfinementSteps {
            inside: plan.ids.inside,
            drop_groups: false,
            sources: Vec::new(),
            build: vec![
                BuildStep::Folder { path: c"dev".into() },
                BuildStep::Folder {
                    path: EMPTY_FOLDER.into(),
                },
                BuildStep::ReadOnlyAgain {
                    path: EMPTY_FOLDER.into(),
                },
            ],
            root_options: step_name(format!(
                "size=512k,nr_inodes=512,mode=0755{}",
                owner_options(plan.ids.inside)
            ))?,
            uses: Vec::new(),
            handles: Vec::new(),
            limits: plan.limits,
        };
        for place in &plan.entries {
            steps.compile_entry(place, plan.ids.inside)?;
        }
        for (path, purpose) in &plan.landlock_rules {
            steps.uses.push((step_name(path.as_str())?, *purpose));
        }
        for path in &plan.handles {
            steps.handles.push(step_name(path.as_str())?);
        }
        steps.make_folders_once();
        Ok(steps)
    }

    fn compile_entry(&mut self, place: &RootEntry, inside: u32) -> Result<(), NulError> {
        match place {
            RootEntry::Host { from, to, access } => self.bind_host(from, to, *access)?,
            RootEntry::Memory {
                to,
                bytes,
                inodes,
                programs,
            } => {
                self.make_parents(to)?;
                self.build.push(BuildStep::Folder {
                    path: relative_name(to)?,
                });
                let options = format!("size={bytes},nr_inodes={inodes},mode=0755{}", owner_options(inside));
                let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
                if *programs == ExecPolicy::Denied {
                    flags |= libc::MS_NOEXEC;
                }
                self.build.push(BuildStep::Memory {
                    to: relative_name(to)?,
                    options: step_name(options)?,
                    flags,
                });
            }
            RootEntry::Link { target, to } => {
                self.make_parents(to)?;
                self.build.push(BuildStep::Link {
                    target: step_name(target.as_str())?,
                    to: relative_name(to)?,
                });
            }
            RootEntry::File { to, content } => {
                self.make_parents(to)?;
                self.build.push(BuildStep::Write {
                    to: relative_name(to)?,
                    content: content.clone().into(),
                });
            }
            RootEntry::Proc => self.mount_proc()?,
            RootEntry::Device { name: device } => {
                let path = format!("/dev/{device}");
                self.build.push(BuildStep::Folder {
                    path: relative_name("/dev")?,
                });
                self.build.push(BuildStep::Touch {
                    path: relative_name(&path)?,
                });
                self.build.push(BuildStep::Device {
                    to: relative_name(&path)?,
                    from: step_name(path)?,
                });
            }
            RootEntry::FilteredHost { from, to, hidden } => self.bind_filtered(from, to, (hidden, inside))?,
        }
        Ok(())
    }

    fn bind_host(&mut self, from: &Path, to: &str, access: MountAccess) -> Result<(), NulError> {
        let attributes = match access {
            MountAccess::Read => attr::RDONLY | attr::NOSUID | attr::NODEV,
            MountAccess::Write => attr::NOSUID | attr::NODEV,
        };
        self.make_parents(to)?;
        let is_file = from.is_file();
        self.build.push(if is_file {
            BuildStep::Touch {
                path: relative_name(to)?,
            }
        } else {
            BuildStep::Folder {
                path: relative_name(to)?,
            }
        });
        self.sources.push(step_name(from.as_os_str().as_bytes())?);
        self.build.push(BuildStep::Bind {
            source: self.sources.len() - 1,
            to: relative_name(to)?,
            attributes,
        });
        Ok(())
    }

    fn bind_filtered(&mut self, from: &Path, to: &str, (hidden, inside): (&[String], u32)) -> Result<(), NulError> {
        self.make_parents(to)?;
        self.build.push(BuildStep::Folder {
            path: relative_name(to)?,
        });
        self.sources.push(step_name(from.as_os_str().as_bytes())?);
        let folders = folders_above(hidden);
        let inodes = folders.len() + hidden.len() + 2;
        let options = format!("size=64k,nr_inodes={inodes},mode=0755{}", owner_options(inside));
        self.build.push(BuildStep::Layer {
            source: self.sources.len() - 1,
            to: relative_name(to)?,
            options: step_name(options)?,
            folders: folders.into_iter().map(step_name).collect::<Result<_, _>>()?,
            hidden: hidden
                .iter()
                .map(|path| step_name(path.as_str()))
                .collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    fn mount_proc(&mut self) -> Result<(), NulError> {
        self.build.push(BuildStep::Folder {
            path: relative_name("/proc")?,
        });
        self.build.push(BuildStep::Proc);
        for path in PROC_READ_ONLY {
            self.build.push(BuildStep::ReadOnlyAgain {
                path: step_name(*path)?,
            });
        }
        for (path, kind) in proc_covers() {
            self.build.push(BuildStep::CoverOfProc {
                path: step_name(*path)?,
                kind: *kind,
            });
        }
        Ok(())
    }

    /// Removes duplicate folders: several entries share the folders above them.
    fn make_folders_once(&mut self) {
        let mut made = std::collections::HashSet::new();
        self.build.retain(|step| match step {
            BuildStep::Folder { path } => made.insert(path.clone()),
            BuildStep::Bind { .. }
            | BuildStep::Touch { .. }
            | BuildStep::Memory { .. }
            | BuildStep::Link { .. }
            | BuildStep::Write { .. }
            | BuildStep::Proc
            | BuildStep::ReadOnlyAgain { .. }
            | BuildStep::Device { .. }
            | BuildStep::Layer { .. }
            | BuildStep::CoverOfProc { .. } => true,
        });
    }

    /// Adds steps that make the folders above `path`.
    fn make_parents(&mut self, path: &str) -> Result<(), NulError> {
        for (index, _) in path.match_indices('/').filter(|(index, _)| *index > 0) {
            if let Some(parent) = path.get(..index) {
                self.build.push(BuildStep::Folder {
                    path: relative_name(parent)?,
                });
            }
        }
        Ok(())
    }
}

/// The parts of `/proc` that are covered on this machine. What only root may open needs no cover: a sandbox is never root.
fn proc_covers() -> &'static [(&'static str, HiddenKind)] {
    static COVERS: OnceLock<Vec<(&'static str, HiddenKind)>> = OnceLock::new();
    COVERS.get_or_init(|| {
        let files = PROC_HIDDEN_FILES.iter().map(|path| (*path, HiddenKind::File));
        let folders = PROC_HIDDEN_FOLDERS.iter().map(|path| (*path, HiddenKind::Folder));
        let open_to_others = |path: &str| {
            const OTHERS: u32 = 0o007;
            fs::metadata(format!("/{path}")).is_ok_and(|found| found.uid() != 0 || found.mode() & OTHERS != 0)
        };
        files.chain(folders).filter(|(path, _)| open_to_others(path)).collect()
    })
}

/// The folders above `paths`, each once, and each after its parent.
fn folders_above(paths: &[String]) -> BTreeSet<&str> {
    let slashes = paths
        .iter()
        .flat_map(|path| path.match_indices('/').map(move |(index, _)| (path, index)));
    slashes.filter_map(|(path, index)| path.get(..index)).collect()
}

fn owner_options(inside: u32) -> String {
    format!(",uid={inside},gid={inside}")
}

fn relative_name(path: &str) -> Result<StepName<'static>, NulError> {
    step_name(path.trim_start_matches('/'))
}

fn step_name(text: impl Into<Vec<u8>>) -> Result<StepName<'static>, NulError> {
    CString::new(text).map(StepName::Owned)
}
