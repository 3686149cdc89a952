//! A plan turned into steps: what can be found out ahead is found out here, so that the copy of the template only acts.

use std::ffi::{CString, NulError};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::plan::{Access, Place, Plan, Programs};
use crate::steps::{EMPTY, HiddenKind, Missing, Step, Steps};
use crate::sys::mount::attr;

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

impl Steps {
    /// The steps of `plan`. The first source is `/dev/null`, which covers hidden files.
    pub(crate) fn compile(plan: &Plan) -> Result<Steps, NulError> {
        let mut steps = Steps {
            inside: plan.ids.inside,
            drop_groups: false,
            sources: vec![c"/dev/null".to_owned()],
            build: vec![
                Step::Folder {
                    path: c"dev".to_owned(),
                },
                Step::Folder { path: EMPTY.to_owned() },
            ],
            root_options: CString::new(format!("size=512k,nr_inodes=512,mode=0755{}", owner(plan.ids.inside)))?,
            uses: Vec::new(),
            handles: Vec::new(),
            limits: plan.limits,
        };
        for place in &plan.places {
            steps.place(place, plan.ids.inside)?;
        }
        for (path, purpose) in &plan.uses {
            steps.uses.push((CString::new(path.as_str())?, *purpose));
        }
        for path in &plan.handles {
            steps.handles.push(CString::new(path.as_str())?);
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
                    options: CString::new(options)?,
                    flags,
                });
            }
            Place::Link { target, to } => {
                self.parents(to)?;
                self.build.push(Step::Link {
                    target: CString::new(target.as_str())?,
                    to: relative(to)?,
                });
            }
            Place::File { to, content } => {
                self.parents(to)?;
                self.build.push(Step::Write {
                    to: relative(to)?,
                    content: content.clone(),
                });
            }
            Place::Proc => self.proc()?,
            Place::Device { name } => {
                let path = format!("/dev/{name}");
                self.build.push(Step::Folder {
                    path: relative("/dev")?,
                });
                self.build.push(Step::Touch { path: relative(&path)? });
                self.sources.push(CString::new(path.as_bytes())?);
                // Not `NODEV`: a device that cannot be opened is of no use.
                let attributes = attr::NOSUID | attr::NOEXEC;
                self.build.push(Step::Bind {
                    source: self.sources.len() - 1,
                    to: relative(&path)?,
                    attributes,
                });
            }
            Place::Hidden { path, kind } => {
                self.build.push(Step::Cover {
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
        self.build.push(if is_file {
            Step::Touch { path: relative(to)? }
        } else {
            Step::Folder { path: relative(to)? }
        });
        self.sources.push(CString::new(from.as_os_str().as_bytes())?);
        self.build.push(Step::Bind {
            source: self.sources.len() - 1,
            to: relative(to)?,
            attributes,
        });
        Ok(())
    }

    fn proc(&mut self) -> Result<(), NulError> {
        self.build.push(Step::Folder {
            path: relative("/proc")?,
        });
        self.build.push(Step::Proc);
        for path in PROC_READ_ONLY {
            self.build.push(Step::ReadOnlyAgain {
                path: CString::new(*path)?,
            });
        }
        for (path, kind) in proc_covers() {
            self.build.push(Step::Cover {
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
        self.build.retain(|step| match step {
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
                self.build.push(Step::Folder {
                    path: relative(parent)?,
                });
            }
        }
        Ok(())
    }
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
