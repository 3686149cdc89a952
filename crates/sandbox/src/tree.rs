//! What can be counted without control groups: processes below the first one, and bytes below a folder.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};

/// What all processes of a sandbox use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) processes: usize,
    /// Memory, shared pages by their share.
    pub(crate) memory: u64,
    pub(crate) cpu: Duration,
}

impl Totals {
    /// The most of each.
    pub(crate) fn most(self, other: Totals) -> Totals {
        Totals {
            processes: self.processes.max(other.processes),
            memory: self.memory.max(other.memory),
            cpu: self.cpu.max(other.cpu),
        }
    }
}

/// Adds up the processes below `first`, which is not counted. One that ends while we look is left out.
pub(crate) fn totals(first: i32) -> Totals {
    let mut totals = Totals::default();
    let mut waiting = children(first);
    while let Some(pid) = waiting.pop() {
        totals.processes += threads(pid);
        totals.memory += memory(pid).unwrap_or(0);
        totals.cpu += cpu(pid).unwrap_or_default();
        waiting.extend(children(pid));
    }
    totals
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(1, Iterator::count)
}

fn memory(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

fn cpu(pid: i32) -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may hold anything, so fields are counted from its closing bracket.
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields
        .get(11..15)?
        .iter()
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Bytes below `folder`, without following links; stops when it is more than `enough`. What cannot be looked into counts as
/// too much: a program must not be able to hide its files from the quota.
pub(crate) fn folder_bytes(folder: BorrowedFd<'_>, enough: u64) -> io::Result<u64> {
    let mut used = 0u64;
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let handle = match openat2(folder, &path, flags, Mode::empty(), beneath) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => continue,
            Err(_) => return Ok(u64::MAX),
        };
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(found) = statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            used += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
            if used > enough {
                return Ok(used);
            }
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                waiting.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Ok(used)
}
