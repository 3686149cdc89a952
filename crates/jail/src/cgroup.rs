//! Control groups: memory, processes and processor time of a whole tree of processes, on v2, v1 and hybrid hosts.
//!
//! Nothing is assumed: the mounts and this process's own groups show which controllers exist where, and a controller whose
//! folder is not writable counts as missing. A [`CgroupClaim`] belongs to one process, a [`SandboxGroup`] to one sandbox, a [`Leaf`] to
//! one execution. Processes join a leaf by writing `0` to its task file themselves: moving *another* process waits for a
//! grace period of the whole kernel (18 ms measured), moving oneself does not.

mod discover;
mod leaf;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use discover::{CgroupTree, CgroupVersion, Controller, HostCgroups};
pub use leaf::{Leaf, LeafLimits, LeafMemory, LeafUsage};

/// Why a step with control groups failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The folder of a group could not be made.
    #[error("cannot make the control group `{}`", path.display())]
    Make {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A setting could not be written.
    #[error("cannot write `{value}` to `{}`", path.display())]
    Set {
        /// The path of the file.
        path: PathBuf,

        /// The value that could not be written.
        value: String,

        /// The error of the operating system.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file holds something that this program does not understand.
    #[error("`{}` holds no number", path.display())]
    Understand {
        /// The path of the file.
        path: PathBuf,
    },
}

/// The groups on the host that belong to one process of Ringfence.
#[derive(Debug)]
pub struct CgroupClaim {
    pub(crate) trees: Vec<CgroupTree>,
    /// The controllers that are not usable, and the reasons, for people.
    missing: Vec<(Controller, String)>,
}

impl CgroupClaim {
    /// Makes a folder called `name` in every tree that is writable.
    pub fn new(machine: &HostCgroups, name: &str) -> CgroupClaim {
        let mut claim = CgroupClaim {
            trees: Vec::new(),
            missing: Vec::new(),
        };
        for tree in machine.trees() {
            let controllers = tree.controllers.clone();
            match tree.claim_folder(name) {
                Ok(tree) => claim.trees.push(tree),
                Err(error) => {
                    let why = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
                    claim
                        .missing
                        .extend(controllers.into_iter().map(|one| (one, format!("{error}{why}"))));
                }
            }
        }
        for controller in Controller::ALL {
            let known = claim.has(controller) || claim.missing.iter().any(|(missing, _)| *missing == controller);
            if !known {
                claim
                    .missing
                    .push((controller, "this host has no such controller".to_owned()));
            }
        }
        claim
    }

    /// Whether `controller` can be used.
    pub fn has(&self, controller: Controller) -> bool {
        self.trees.iter().any(|tree| tree.controllers.contains(&controller))
    }

    /// The controllers that cannot be used, and why.
    pub fn missing(&self) -> &[(Controller, String)] {
        &self.missing
    }

    /// The folders of this claim, for cleaning up after a crash.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.trees.iter().map(|tree| tree.folder.clone()).collect()
    }

    /// Makes a group for one sandbox.
    pub fn group(&self, name: &str) -> Result<SandboxGroup, CgroupError> {
        let mut group = SandboxGroup { folders: Vec::new() };
        for tree in &self.trees {
            let folder = tree.folder.join(name);
            make_group(&folder)?;
            group.folders.push(CgroupTree {
                folder: folder.clone(),
                ..tree.clone()
            });
            if tree.version == CgroupVersion::V2 {
                tree.enable_controllers(&folder)?;
            }
        }
        Ok(group)
    }
}

impl Drop for CgroupClaim {
    fn drop(&mut self) {
        for tree in &self.trees {
            remove_tree(&tree.folder);
        }
    }
}

/// The groups of one sandbox. Its first process stays in the group of the process that made it; executions are in leaves
/// below.
#[derive(Debug)]
pub struct SandboxGroup {
    folders: Vec<CgroupTree>,
}

impl SandboxGroup {
    /// Makes a leaf for one execution, with its limits in force.
    pub fn leaf(&self, name: &str, limits: &LeafLimits) -> Result<Leaf, CgroupError> {
        Leaf::new(&self.folders, name, limits)
    }
}

impl Drop for SandboxGroup {
    fn drop(&mut self) {
        for tree in &self.folders {
            remove_tree(&tree.folder);
        }
    }
}

fn make_group(folder: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(folder) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(CgroupError::Make {
            path: folder.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

fn write_setting(path: &Path, value: &str) -> Result<(), CgroupError> {
    fs::write(path, value).map_err(|source| CgroupError::Set {
        path: path.to_owned(),
        value: value.to_owned(),
        source,
    })
}

/// Removes a group and those below it, and ends the processes in them. A group that is gone is fine; one that cannot be
/// removed yet (a process is still exiting) is tried a few times and then left to the next cleanup.
pub fn remove_tree(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                kill_all(folder);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            _ => return,
        }
    }
}

/// Kills every process of the group at `folder`.
pub(crate) fn kill_all(folder: &Path) {
    if fs::write(folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let Ok(list) = fs::read_to_string(folder.join("cgroup.procs")) else {
        return;
    };
    for pid in list
        .lines()
        .filter_map(|line| line.parse::<i32>().ok())
        .filter(|pid| *pid > 1)
    {
        // A process that has ended meanwhile needs no signal.
        let _ = crate::sys::process::signal(pid, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests;
