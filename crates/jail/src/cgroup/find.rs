//! Finds which controllers a host has, where they are, and whether they are usable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{GroupError, make, set};

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
pub enum Version {
    /// Version 1: one tree per controller.
    One,
    /// Version 2: one unified tree.
    Two,
}

/// A tree of groups, and the folder in it that belongs to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The interface of this tree.
    pub version: Version,
    /// The controllers that can limit processes in this tree.
    pub controllers: Vec<Controller>,
    /// The folder that belongs to this process.
    pub folder: PathBuf,
    /// The group that this process itself is in.
    pub(super) home: PathBuf,
}

/// What the host reports about its control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The content of `/proc/self/mountinfo`.
    pub mounts: String,
    /// The content of `/proc/self/cgroup`.
    pub own: String,
}

impl Machine {
    /// Reads the two files on this machine.
    pub fn here() -> io::Result<Machine> {
        Ok(Machine {
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
            own: fs::read_to_string("/proc/self/cgroup")?,
        })
    }

    /// The trees that hold a controller that is used here, each with this process's own folder.
    pub fn trees(&self) -> Vec<Tree> {
        self.mounts.lines().filter_map(|line| self.tree(line)).collect()
    }

    fn tree(&self, line: &str) -> Option<Tree> {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        let (root, point) = (fields.get(3)?, fields.get(4)?);
        let mut kind = after.split(' ');
        let version = match kind.next()? {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        let options: Vec<&str> = kind.nth(1)?.split(',').collect();
        let home = Path::new(point).join(self.own_path(version, &options, root)?);
        let controllers: Vec<Controller> = match version {
            Version::One => Controller::ALL
                .into_iter()
                .filter(|one| options.contains(&one.v1_name()))
                .collect(),
            Version::Two => {
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
        (!controllers.is_empty()).then(|| Tree {
            version,
            controllers,
            folder: home.clone(),
            home,
        })
    }

    /// The path of this process in a tree, relative to the mount point of the tree.
    fn own_path(&self, version: Version, options: &[&str], root: &str) -> Option<PathBuf> {
        let path = self.own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
            let mine = match version {
                Version::Two => names.is_empty(),
                Version::One => names.split(',').any(|name| !name.is_empty() && options.contains(&name)),
            };
            mine.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
        Some(below.to_owned())
    }
}

impl Tree {
    /// Makes the folder of this process. On v2 a group with processes cannot have controlled children, so the folder is made
    /// beside this process's group and not below it, unless that is the root of the tree, which is exempt from the rule.
    pub(super) fn claim(self, name: &str) -> Result<Tree, GroupError> {
        let at = match (self.version, self.home.parent()) {
            (Version::Two, Some(parent)) if parent.join("cgroup.procs").exists() => parent.to_owned(),
            _ => self.home.clone(),
        };
        if self.version == Version::Two {
            self.enable(&at)?;
        }
        let folder = at.join(name);
        make(&folder)?;
        if self.version == Version::Two {
            self.enable(&folder)?;
        }
        Ok(Tree { folder, ..self })
    }

    /// Enables this tree's controllers for the children of `folder`.
    pub(super) fn enable(&self, folder: &Path) -> Result<(), GroupError> {
        let names: Vec<String> = self
            .controllers
            .iter()
            .filter_map(|one| one.v2_name())
            .map(|name| format!("+{name}"))
            .collect();
        set(&folder.join("cgroup.subtree_control"), &names.join(" "))
    }
}
