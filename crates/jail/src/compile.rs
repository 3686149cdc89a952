//! Compiles a plan to steps: everything that can be decided in advance is decided here, so that the copy of the template
//! only acts.

use std::collections::BTreeSet;
use std::ffi::{CString, NulError};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::plan::{Access, Place, Plan, Programs};
use crate::steps::{EMPTY, HiddenKind, Name, Step, Steps};
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

impl Steps<'static> {
    /// Compiles `plan` to its steps.
    pub(crate) fn compile(plan: &Plan) -> Result<Steps<'static>, NulError> {
        let mut steps = Steps {
            inside: plan.ids.inside,
            drop_groups: false,
            sources: Vec::new(),
            build: vec![
                Step::Folder { path: c"dev".into() },
                Step::Folder { path: EMPTY.into() },
                Step::ReadOnlyAgain { path: EMPTY.into() },
            ],
            root_options: name(format!("size=512k,nr_inodes=512,mode=0755{}", owner(plan.ids.inside)))?,
            uses: Vec::new(),
            handles: Vec::new(),
            limits: plan.limits,
        };
        for place in &plan.places {
            steps.place(place, plan.ids.inside)?;
        }
        for (path, purpose) in &plan.uses {
            steps.uses.push((name(path.as_str())?, *purpose));
        }
        for path in &plan.handles {
            steps.handles.push(name(path.as_str())?);
        }
        steps.make_folders_once();
        Ok(steps)
    }

    fn place(&mut self, place: &Place, inside: u32) -> Result<(), NulError> {
        match place {
            Place::Host { from, to, access } => self.host(from, to, *access)?,
            Place::Memory {
                to,
                bytes,
                inodes,
                programs,
            } => {
                self.parents(to)?;
                self.build.push(Step::Folder { path: relative(to)? });
                let options = format!("size={bytes},nr_inodes={inodes},mode=0755{}", owner(inside));
                let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
                if *programs == Programs::Never {
                    flags |= libc::MS_NOEXEC;
                }
                self.build.push(Step::Memory {
                    to: relative(to)?,
                    options: name(options)?,
                    flags,
                });
            }
            Place::Link { target, to } => {
                self.parents(to)?;
                self.build.push(Step::Link {
                    target: name(target.as_str())?,
                    to: relative(to)?,
                });
            }
            Place::File { to, content } => {
                self.parents(to)?;
                self.build.push(Step::Write {
                    to: relative(to)?,
                    content: content.clone().into(),
                });
            }
            Place::Proc => self.proc()?,
            Place::Device { name: device } => {
                let path = format!("/dev/{device}");
                self.build.push(Step::Folder {
                    path: relative("/dev")?,
                });
                self.build.push(Step::Touch { path: relative(&path)? });
                self.build.push(Step::Device {
                    to: relative(&path)?,
                    from: name(path)?,
                });
            }
            Place::Shown { from, to, hidden } => self.shown(from, to, (hidden, inside))?,
        }
        Ok(())
    }

    fn host(&mut self, from: &Path, to: &str, access: Access) -> Result<(), NulError> {
        let attributes = match access {
            Access::Read => attr::RDONLY | attr::NOSUID | attr::NODEV,
            Access::Write => attr::NOSUID | attr::NODEV,
        };
        self.parents(to)?;
        let is_file = from.is_file();
        self.build.push(if is_file {
            Step::Touch { path: relative(to)? }
        } else {
            Step::Folder { path: relative(to)? }
        });
        self.sources.push(name(from.as_os_str().as_bytes())?);
        self.build.push(Step::Bind {
            source: self.sources.len() - 1,
            to: relative(to)?,
            attributes,
        });
        Ok(())
    }

    fn shown(&mut self, from: &Path, to: &str, (hidden, inside): (&[String], u32)) -> Result<(), NulError> {
        self.parents(to)?;
        self.build.push(Step::Folder { path: relative(to)? });
        self.sources.push(name(from.as_os_str().as_bytes())?);
        let folders = folders_above(hidden);
        let inodes = folders.len() + hidden.len() + 2;
        let options = format!("size=64k,nr_inodes={inodes},mode=0755{}", owner(inside));
        self.build.push(Step::Layer {
            source: self.sources.len() - 1,
            to: relative(to)?,
            options: name(options)?,
            folders: folders.into_iter().map(name).collect::<Result<_, _>>()?,
            hidden: hidden
                .iter()
                .map(|path| name(path.as_str()))
                .collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    fn proc(&mut self) -> Result<(), NulError> {
        self.build.push(Step::Folder {
            path: relative("/proc")?,
        });
        self.build.push(Step::Proc);
        for path in PROC_READ_ONLY {
            self.build.push(Step::ReadOnlyAgain { path: name(*path)? });
        }
        for (path, kind) in proc_covers() {
            self.build.push(Step::CoverOfProc {
                path: name(*path)?,
                kind: *kind,
            });
        }
        Ok(())
    }

    /// Removes duplicate folders: several entries share the folders above them.
    fn make_folders_once(&mut self) {
        let mut made = std::collections::HashSet::new();
        self.build.retain(|step| match step {
            Step::Folder { path } => made.insert(path.clone()),
            Step::Bind { .. }
            | Step::Touch { .. }
            | Step::Memory { .. }
            | Step::Link { .. }
            | Step::Write { .. }
            | Step::Proc
            | Step::ReadOnlyAgain { .. }
            | Step::Device { .. }
            | Step::Layer { .. }
            | Step::CoverOfProc { .. } => true,
        });
    }

    /// Adds steps that make the folders above `path`.
    fn parents(&mut self, path: &str) -> Result<(), NulError> {
        for (index, _) in path.match_indices('/').filter(|(index, _)| *index > 0) {
            if let Some(parent) = path.get(..index) {
                self.build.push(Step::Folder {
                    path: relative(parent)?,
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

fn owner(inside: u32) -> String {
    format!(",uid={inside},gid={inside}")
}

fn relative(path: &str) -> Result<Name<'static>, NulError> {
    name(path.trim_start_matches('/'))
}

fn name(text: impl Into<Vec<u8>>) -> Result<Name<'static>, NulError> {
    CString::new(text).map(Name::Owned)
}
