//! Finds which controllers a host has, where they are, and whether they are usable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{CgroupError, make_group, write_setting};

/// What a control group can count and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// The memory that processes use.
    Memory,
    /// The number of processes and threads.
    Processes,
    /// The share of the processors.
    Cpu,
    /// The processor time that processes have used.
    CpuTime,
}

impl Controller {
    /// All controllers, in the order of their declaration.
    pub const ALL: [Controller; 4] = [
        Controller::Memory,
        Controller::Processes,
        Controller::Cpu,
        Controller::CpuTime,
    ];

    /// Its name as a v1 mount option; v2 counts processor time everywhere.
    fn v1_name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Processes => "pids",
            Controller::Cpu => "cpu",
            Controller::CpuTime => "cpuacct",
        }
    }

    fn v2_name(self) -> Option<&'static str> {
        match self {
            Controller::Memory => Some("memory"),
            Controller::Processes => Some("pids"),
            Controller::Cpu => Some("cpu"),
            Controller::CpuTime => None,
        }
    }
}

/// The interface of a tree of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Version 1: one tree per controller.
    V1,
    /// Version 2: one unified tree.
    V2,
}

/// A tree of groups, and the folder in it that belongs to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupTree {
    /// The interface of this tree.
    pub version: CgroupVersion,
    /// The controllers that can limit processes in this tree.
    pub controllers: Vec<Controller>,
    /// The folder that belongs to this process.
    pub folder: PathBuf,
    /// The group that this process itself is in.
    pub(super) own_folder: PathBuf,
}

/// What the host reports about its control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCgroups {
    /// The content of `/proc/self/mountinfo`.
    pub mounts: String,
    /// The content of `/proc/self/cgroup`.
    pub own: String,
}

impl HostCgroups {
    /// Reads the two files on this machine.
    pub fn detect() -> io::Result<HostCgroups> {
        Ok(HostCgroups {
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
            own: fs::read_to_string("/proc/self/cgroup")?,
        })
    }

    /// The trees that hold a controller that is used here, each with this process's own folder.
    pub fn trees(&self) -> Vec<CgroupTree> {
        self.mounts.lines().filter_map(|line| self.parse_tree(line)).collect()
    }

    fn parse_tree(&self, line: &str) -> Option<CgroupTree> {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let (root, point) = (fields.get(3)?, fields.get(4)?);
        let mut kind = after.split(' ');
        let version = match kind.next()? {
            "cgroup" => CgroupVersion::V1,
            "cgroup2" => CgroupVersion::V2,
            _ => return None,
        };
        let options: Vec<&str> = kind.nth(1)?.split(',').collect();
        let home = Path::new(point).join(self.own_path(version, &options, root)?);
        let controllers: Vec<Controller> = match version {
            CgroupVersion::V1 => Controller::ALL
                .into_iter()
                .filter(|one| options.contains(&one.v1_name()))
                .collect(),
            CgroupVersion::V2 => {
                let offered = fs::read_to_string(home.join("cgroup.controllers")).unwrap_or_default();
                let offered: Vec<&str> = offered.split_whitespace().collect();
                let mut usable: Vec<Controller> = Controller::ALL
                    .into_iter()
                    .filter(|one| one.v2_name().is_some_and(|name| offered.contains(&name)))
                    .collect();
                if !usable.is_empty() {
                    usable.push(Controller::CpuTime);
                }
                usable
            }
        };
        (!controllers.is_empty()).then(|| CgroupTree {
            version,
            controllers,
            folder: home.clone(),
            own_folder: home,
        })
    }

    /// The path of this process in a tree, relative to the mount point of the tree.
    fn own_path(&self, version: CgroupVersion, options: &[&str], root: &str) -> Option<PathBuf> {
        let path = self.own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let mine = match version {
                CgroupVersion::V2 => names.is_empty(),
                CgroupVersion::V1 => names.split(',').any(|name| !name.is_empty() && options.contains(&name)),
            };
            mine.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
        Some(below.to_owned())
    }
}

impl CgroupTree {
    /// Makes the folder of this process. On v2 a group with processes cannot have controlled children, so the folder is made
    /// beside this process's group and not below it, unless that is the root of the tree, which is exempt from the rule.
    pub(super) fn claim_folder(self, name: &str) -> Result<CgroupTree, CgroupError> {
        let at = match (self.version, self.own_folder.parent()) {
            (CgroupVersion::V2, Some(parent)) if parent.join("cgroup.procs").exists() => parent.to_owned(),
            _ => self.own_folder.clone(),
        };
        if self.version == CgroupVersion::V2 {
            self.enable_controllers(&at)?;
        }
        let folder = at.join(name);
        make_group(&folder)?;
        if self.version == CgroupVersion::V2 {
            self.enable_controllers(&folder)?;
        }
        Ok(CgroupTree { folder, ..self })
    }

    /// Enables this tree's controllers for the children of `folder`.
    pub(super) fn enable_controllers(&self, folder: &Path) -> Result<(), CgroupError> {
        let names: Vec<String> = self
            .controllers
            .iter()
            .filter_map(|one| one.v2_name())
            .map(|name| format!("+{name}"))
            .collect();
        write_setting(&folder.join("cgroup.subtree_control"), &names.join(" "))
    }
}
