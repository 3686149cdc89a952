//! The group of one execution: its limits, what it used, and its end.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Controller, GroupError, Tree, Version, end_all, make, remove_tree, set};

/// What one execution may use in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafLimits {
    /// Bytes of memory, files in memory included.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
}

/// What one execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time; `None`: not counted here.
    pub cpu: Option<Duration>,
    /// Most memory at one time.
    pub peak_memory: Option<u64>,
    /// How often the kernel killed for want of memory.
    pub memory_kills: u64,
    /// How often a new process was refused.
    pub processes_refused: u64,
}

/// One execution's groups. Dropping ends what is in them and removes them.
#[derive(Debug)]
pub struct Leaf {
    parts: Vec<Tree>,
}

impl Leaf {
    pub(super) fn new(parents: &[Tree], name: &str, limits: &LeafLimits) -> Result<Leaf, GroupError> {
        let mut leaf = Leaf { parts: Vec::new() };
        for parent in parents {
            let folder = parent.folder.join(name);
            make(&folder)?;
            leaf.parts.push(Tree {
                folder,
                ..parent.clone()
            });
        }
        for part in &leaf.parts {
            limit(part, limits)?;
        }
        Ok(leaf)
    }

    /// Open task files: a process that writes `0` to each is in the leaf from then on.
    pub fn task_files(&self) -> Result<Vec<OwnedFd>, GroupError> {
        let open = |part: &Tree| {
            let path = part.folder.join(match part.version {
                Version::One => "tasks",
                Version::Two => "cgroup.procs",
            });
            File::options()
                .write(true)
                .open(&path)
                .map(OwnedFd::from)
                .map_err(|source| GroupError::Read { path, source })
        };
        self.parts.iter().map(open).collect()
    }

    /// What was used so far.
    pub fn usage(&self) -> Result<Usage, GroupError> {
        let mut usage = Usage::default();
        for part in &self.parts {
            for controller in &part.controllers {
                read_usage(part, *controller, &mut usage)?;
            }
        }
        Ok(usage)
    }

    /// Kills everything in the leaf.
    pub fn end(&self) {
        if let Some(part) = self.parts.first() {
            end_all(&part.folder);
        }
    }

    /// Its folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.folder.clone()).collect()
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        for part in &self.parts {
            remove_tree(&part.folder);
        }
    }
}

fn limit(part: &Tree, limits: &LeafLimits) -> Result<(), GroupError> {
    const PERIOD: u64 = 100_000;
    let at = |name: &str| part.folder.join(name);
    let quota = (limits.cpu_millis * PERIOD / 1000).max(1000);
    for controller in &part.controllers {
        match (part.version, controller) {
            (Version::One, Controller::Memory) => {
                set(&at("memory.limit_in_bytes"), &limits.memory.to_string())?;
                set_if_there(&at("memory.memsw.limit_in_bytes"), &limits.memory.to_string())?;
            }
            (Version::Two, Controller::Memory) => {
                set(&at("memory.max"), &limits.memory.to_string())?;
                set_if_there(&at("memory.swap.max"), "0")?;
                set_if_there(&at("memory.oom.group"), "1")?;
            }
            (_, Controller::Processes) => set(&at("pids.max"), &limits.processes.to_string())?,
            (Version::One, Controller::Cpu) => {
                set(&at("cpu.cfs_period_us"), &PERIOD.to_string())?;
                set(&at("cpu.cfs_quota_us"), &quota.to_string())?;
            }
            (Version::Two, Controller::Cpu) => set(&at("cpu.max"), &format!("{quota} {PERIOD}"))?,
            (_, Controller::CpuTime) => {}
        }
    }
    Ok(())
}

/// A setting that not every kernel has.
fn set_if_there(path: &Path, value: &str) -> Result<(), GroupError> {
    if path.exists() { set(path, value) } else { Ok(()) }
}

fn read_usage(part: &Tree, controller: Controller, usage: &mut Usage) -> Result<(), GroupError> {
    let at = |name: &str| part.folder.join(name);
    match (part.version, controller) {
        (Version::One, Controller::Memory) => {
            usage.peak_memory = Some(read_number(&at("memory.max_usage_in_bytes"))?);
            usage.memory_kills = read_field(&at("memory.oom_control"), "oom_kill")?;
        }
        (Version::Two, Controller::Memory) => {
            usage.peak_memory = match read_number(&at("memory.peak")) {
                Err(GroupError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            };
            usage.memory_kills = read_field(&at("memory.events"), "oom_kill")?;
        }
        (_, Controller::Processes) => usage.processes_refused = read_field(&at("pids.events"), "max")?,
        (Version::One, Controller::CpuTime) => {
            usage.cpu = Some(Duration::from_nanos(read_number(&at("cpuacct.usage"))?));
        }
        (Version::Two, Controller::CpuTime) => {
            usage.cpu = Some(Duration::from_micros(read_field(&at("cpu.stat"), "usage_usec")?));
        }
        (_, Controller::Cpu) => {}
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, GroupError> {
    fs::read_to_string(path).map_err(|source| GroupError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_number(path: &Path) -> Result<u64, GroupError> {
    read(path)?
        .trim()
        .parse()
        .map_err(|_| GroupError::Understand { path: path.to_owned() })
}

fn read_field(path: &Path, name: &str) -> Result<u64, GroupError> {
    let text = read(path)?;
    let value = text.lines().find_map(|line| {
        line.split_once(' ')
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value)
    });
    value
        .and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| GroupError::Understand { path: path.to_owned() })
}
