//! Which controllers a host has, where, and whether they can be used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{GroupError, make, set};

/// What a control group can count and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Memory in use.
    Memory,
    /// Processes and threads.
    Processes,
    /// Share of the processors.
    Cpu,
    /// Processor time used.
    CpuTime,
}

impl Controller {
    /// All of them.
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

/// Which interface a tree speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One tree per controller.
    One,
    /// The unified tree.
    Two,
}

/// A tree of groups and the folder in it that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The interface it speaks.
    pub version: Version,
    /// What can be limited in it.
    pub controllers: Vec<Controller>,
    /// Our folder.
    pub folder: PathBuf,
    /// Where this process itself is.
    pub(super) home: PathBuf,
}

/// What the host says of its control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// `/proc/self/mountinfo`.
    pub mounts: String,
    /// `/proc/self/cgroup`.
    pub own: String,
}

impl Machine {
    /// Asks this machine.
    pub fn here() -> io::Result<Machine> {
        Ok(Machine {
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
            own: fs::read_to_string("/proc/self/cgroup")?,
        })
    }

    /// The trees that hold a controller we use, each with this process's own folder.
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

    /// This process's path in a tree, relative to where the tree is mounted.
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
    /// Makes our folder. On v2 a group with processes cannot have controlled children, so beside ours, not below it,
    /// unless this is the root of the tree, which is free of that rule.
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

    /// Hands this tree's controllers down to the children of `folder`.
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
