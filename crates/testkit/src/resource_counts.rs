//! Resource counts of a process and its sandboxes: memory, descriptors, mounts, control groups.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Counts of resources that must not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceCounts {
    /// Resident memory of this process, in KiB.
    pub memory_kib: u64,
    /// Open descriptors of this process.
    pub descriptors: usize,
    /// Mounts that this process sees.
    pub mounts: usize,
    /// Control groups below the given ones.
    pub groups: usize,
}

impl ResourceCounts {
    /// Measures the current counts.
    pub fn measure(groups: &[std::path::PathBuf]) -> Result<ResourceCounts> {
        let status = fs::read_to_string("/proc/self/status")?;
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        Ok(ResourceCounts {
            memory_kib: memory.trim().trim_end_matches(" kB").parse()?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            mounts: fs::read_to_string("/proc/self/mountinfo")?.lines().count(),
            groups: groups.iter().map(|folder| folders_below(folder)).sum(),
        })
    }
}

fn folders_below(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let folders = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| 1 + folders_below(&entry.path())).sum()
}

/// Proportional memory of a process and all its descendants, in KiB.
pub fn tree_memory(pid: i32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let own = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .context("no Pss")?;
    let own: u64 = own.trim().trim_end_matches(" kB").parse()?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below: Result<Vec<u64>> = children
        .split_whitespace()
        .map(|pid| tree_memory(pid.parse()?))
        .collect();
    Ok(own + below?.into_iter().sum::<u64>())
}
