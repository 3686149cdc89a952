//! A plan made ready for the child: every string NUL-terminated, every list in place, so that nothing is allocated later.

use std::ffi::{CStr, CString, NulError};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::landlock::Use;
use crate::plan::{Access, HiddenKind, Limits, Place, Plan, Programs};
use crate::seccomp::{Filter, Profile};
use crate::sys::mount::attr;

/// One thing the child does to build its root. Paths are relative to the root that is being built.
#[derive(Debug)]
pub(crate) enum Step {
    Folder {
        path: CString,
    },
    Bind {
        source: usize,
        to: CString,
        attributes: u64,
    },
    Touch {
        path: CString,
    },
    Memory {
        to: CString,
        options: CString,
        flags: libc::c_ulong,
    },
    Link {
        target: CString,
        to: CString,
    },
    Write {
        to: CString,
        content: Vec<u8>,
    },
    Proc,
    ReadOnlyAgain {
        path: CString,
    },
    Cover {
        path: CString,
        kind: HiddenKind,
        missing: Missing,
    },
}

/// What it means when a thing to cover is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// This kernel does not have it.
    Fine,
    /// It was there when the plan was made: somebody is changing the folder under us.
    Fails,
}

/// An empty folder in the root, shown wherever a folder is hidden.
pub(crate) const EMPTY: &CStr = c"dev/.hidden";

/// A place of the host that is opened before the child gives up the caller's identity.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: CString,
    pub(crate) named: String,
}

#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) inside: u32,
    pub(crate) drop_groups: bool,
    pub(crate) sources: Vec<Source>,
    /// Room for the sources' handles, filled in the child.
    pub(crate) opened: Vec<Option<OwnedFd>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) root_options: CString,
    pub(crate) uses: Vec<(CString, Use)>,
    pub(crate) handles: Vec<CString>,
    pub(crate) limits: Limits,
    pub(crate) filter: &'static Filter,
}

/// What of `/proc` changes the machine for more than root: read-only.
const PROC_READ_ONLY: &[&str] = &["proc/sys"];
/// What of `/proc` tells of the machine, or changes it: not there.
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

impl Compiled {
    pub(crate) fn new(plan: &Plan) -> Result<Compiled, NulError> {
        let mut compiled = Compiled {
            inside: plan.ids.inside,
            drop_groups: false,
            sources: vec![source("/dev/null".as_bytes(), "/dev/null")?],
            opened: Vec::new(),
            steps: vec![
                Step::Folder {
                    path: c"dev".to_owned(),
                },
                Step::Folder { path: EMPTY.to_owned() },
            ],
            root_options: CString::new(format!("size=512k,nr_inodes=512,mode=0755{}", owner(plan.ids.inside)))?,
            uses: Vec::new(),
            handles: Vec::new(),
            limits: plan.limits,
            filter: program_filter(),
        };
        for place in &plan.places {
            compiled.place(place, plan.ids.inside)?;
        }
        for (path, purpose) in &plan.uses {
            compiled.uses.push((CString::new(path.as_str())?, *purpose));
        }
        for path in &plan.handles {
            compiled.handles.push(CString::new(path.as_str())?);
        }
        compiled.opened.resize_with(compiled.sources.len(), || None);
        compiled.make_folders_once();
        Ok(compiled)
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
                self.steps.push(Step::Folder { path: relative(to)? });
                let options = format!("size={bytes},nr_inodes={inodes},mode=0755{}", owner(inside));
                let mut flags = libc::MS_NOSUID | libc::MS_NODEV;
                if *programs == Programs::Never {
                    flags |= libc::MS_NOEXEC;
                }
                self.steps.push(Step::Memory {
                    to: relative(to)?,
                    options: CString::new(options)?,
                    flags,
                });
            }
            Place::Link { target, to } => {
                self.parents(to)?;
                self.steps.push(Step::Link {
                    target: CString::new(target.as_str())?,
                    to: relative(to)?,
                });
            }
            Place::File { to, content } => {
                self.parents(to)?;
                self.steps.push(Step::Write {
                    to: relative(to)?,
                    content: content.clone(),
                });
            }
            Place::Proc => self.proc()?,
            Place::Device { name } => {
                let path = format!("/dev/{name}");
                self.steps.push(Step::Folder {
                    path: relative("/dev")?,
                });
                self.steps.push(Step::Touch { path: relative(&path)? });
                self.sources.push(source(path.as_bytes(), &path)?);
                // Not `NODEV`: a device that cannot be opened is of no use.
                let attributes = attr::NOSUID | attr::NOEXEC;
                self.steps.push(Step::Bind {
                    source: self.sources.len() - 1,
                    to: relative(&path)?,
                    attributes,
                });
            }
            Place::Hidden { path, kind } => {
                self.steps.push(Step::Cover {
                    path: relative(path)?,
                    kind: *kind,
                    missing: Missing::Fails,
                });
            }
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
        self.steps.push(if is_file {
            Step::Touch { path: relative(to)? }
        } else {
            Step::Folder { path: relative(to)? }
        });
        self.sources
            .push(source(from.as_os_str().as_bytes(), &from.display().to_string())?);
        self.steps.push(Step::Bind {
            source: self.sources.len() - 1,
            to: relative(to)?,
            attributes,
        });
        Ok(())
    }

    fn proc(&mut self) -> Result<(), NulError> {
        self.steps.push(Step::Folder {
            path: relative("/proc")?,
        });
        self.steps.push(Step::Proc);
        for path in PROC_READ_ONLY {
            self.steps.push(Step::ReadOnlyAgain {
                path: CString::new(*path)?,
            });
        }
        for (path, kind) in proc_covers() {
            self.steps.push(Step::Cover {
                path: CString::new(*path)?,
                kind: *kind,
                missing: Missing::Fine,
            });
        }
        Ok(())
    }

    /// Several places share the folders above them.
    fn make_folders_once(&mut self) {
        let mut made = std::collections::HashSet::new();
        self.steps.retain(|step| match step {
            Step::Folder { path } => made.insert(path.clone()),
            Step::Bind { .. }
            | Step::Touch { .. }
            | Step::Memory { .. }
            | Step::Link { .. }
            | Step::Write { .. }
            | Step::Proc
            | Step::ReadOnlyAgain { .. }
            | Step::Cover { .. } => true,
        });
    }

    /// Steps that make the folders above `path`.
    fn parents(&mut self, path: &str) -> Result<(), NulError> {
        for (index, _) in path.match_indices('/').filter(|(index, _)| *index > 0) {
            if let Some(parent) = path.get(..index) {
                self.steps.push(Step::Folder {
                    path: relative(parent)?,
                });
            }
        }
        Ok(())
    }
}

/// The same for every jail, so it is compiled once.
fn program_filter() -> &'static Filter {
    static FILTER: OnceLock<Filter> = OnceLock::new();
    FILTER.get_or_init(|| Filter::of(Profile::Program))
}

/// What of `/proc` is covered on this machine. What only root may open needs no cover: a sandbox is never root.
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

fn owner(inside: u32) -> String {
    format!(",uid={inside},gid={inside}")
}

fn relative(path: &str) -> Result<CString, NulError> {
    CString::new(path.trim_start_matches('/'))
}

fn source(path: &[u8], named: &str) -> Result<Source, NulError> {
    Ok(Source {
        path: CString::new(path)?,
        named: named.to_owned(),
    })
}
