//! How much memory this machine has for this process: what the kernel reports, or less where a control group around the
//! process says so.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_jail::cgroup::{CgroupTree, CgroupVersion, Controller, HostCgroups};

/// The memory of the machine, or of the control group that this process runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// Bytes of memory in total.
    pub total: u64,
    /// Bytes that programs could allocate now without swapping others out.
    pub available: u64,
}

/// Where this machine reports its memory: found once, read often.
#[derive(Debug, Clone)]
pub struct MemorySource {
    /// The control groups around this process that have a memory limit.
    groups: Vec<(PathBuf, CgroupVersion)>,
}

impl MemorySource {
    /// Finds the control groups that limit this process.
    pub fn find() -> MemorySource {
        MemorySource::from_trees(&HostCgroups::detect().map_or_else(|_| Vec::new(), |machine| machine.trees()))
    }

    fn from_trees(trees: &[CgroupTree]) -> MemorySource {
        let trees = trees
            .iter()
            .filter(|tree| tree.controllers.contains(&Controller::Memory));
        let groups = trees.flat_map(|tree| tree.folder.ancestors().map(|folder| (folder.to_owned(), tree.version)));
        MemorySource {
            groups: groups.filter(|(folder, version)| has_limit(folder, *version)).collect(),
        }
    }

    /// Reads the current values; `None` when the machine does not report them.
    pub fn read(&self) -> Option<MachineMemory> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let machine = MachineMemory {
            total: kibibytes(&text, "MemTotal:")?,
            available: kibibytes(&text, "MemAvailable:")?,
        };
        Some(
            self.groups
                .iter()
                .fold(machine, |memory, (folder, version)| memory.within(folder, *version)),
        )
    }
}

impl MachineMemory {
    /// Lowers the values to what a control group leaves.
    fn within(self, folder: &Path, version: CgroupVersion) -> MachineMemory {
        let used = match version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        let Some(limit) = read_number(&folder.join(limit_file(version))) else {
            return self;
        };
        let used = read_number(&folder.join(used)).unwrap_or(0);
        let cache = fs::read_to_string(folder.join("memory.stat")).map_or(0, |text| inactive_files(&text));
        MachineMemory {
            total: self.total.min(limit),
            available: self.available.min(limit.saturating_sub(used.saturating_sub(cache))),
        }
    }
}

fn limit_file(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "memory.limit_in_bytes",
        CgroupVersion::V2 => "memory.max",
    }
}

/// Whether a control group has a limit: a missing file, `max`, and a number above any machine's memory are no limit.
fn has_limit(folder: &Path, version: CgroupVersion) -> bool {
    read_number(&folder.join(limit_file(version))).is_some_and(|limit| limit < 1 << 60)
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Bytes of inactive file pages, which the kernel reclaims first.
fn inactive_files(text: &str) -> u64 {
    let names = ["total_inactive_file ", "inactive_file "];
    let found = names
        .iter()
        .find_map(|name| text.lines().find_map(|line| line.strip_prefix(name)));
    found.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
