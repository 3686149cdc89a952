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

/// How much a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Bytes on disk.
    pub bytes: u64,
    /// Files, folders, links and all else.
    pub files: u64,
}

impl Held {
    /// More than anything: what could not be looked into.
    pub(crate) const UNKNOWN: Held = Held {
        bytes: u64::MAX,
        files: u64::MAX,
    };

    /// Whether some of it is more than `most` has.
    pub fn exceeds(&self, most: &Held) -> bool {
        self.bytes > most.bytes || self.files > most.files
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Held) -> Held {
        Held {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }

    /// As much of each as the one that has less of it.
    pub(crate) fn least(self, other: Held) -> Held {
        Held {
            bytes: self.bytes.min(other.bytes),
            files: self.files.min(other.files),
        }
    }

    /// As much of each as the one that has more of it.
    pub(crate) fn most(self, other: Held) -> Held {
        Held {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
        }
    }
}

/// What is below `folder`, without following links; stops when it is more than `most`. What cannot be looked into counts as
/// too much: a program must not be able to hide its files from the quota.
pub(crate) fn folder_use(folder: BorrowedFd<'_>, most: Held) -> io::Result<Held> {
    let mut held = Held::default();
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let handle = match openat2(folder, &path, flags, Mode::empty(), beneath) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => continue,
            Err(_) => return Ok(Held::UNKNOWN),
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
            let bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
            held = held.and(Held { bytes, files: 1 });
            if held.exceeds(&most) {
                return Ok(held);
            }
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                waiting.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Ok(held)
}

/// Whether what is below `folder` is plain files alone: no programs, no second names, no folder with nothing in it.
pub(crate) fn is_plain(folder: BorrowedFd<'_>) -> io::Result<bool> {
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let Ok(handle) = openat2(folder, &path, flags, Mode::empty(), beneath) else {
            return Ok(false);
        };
        let mut is_empty = true;
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            is_empty = false;
            let Ok(found) = statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                return Ok(false);
            };
            let kind = FileType::from_raw_mode(found.st_mode);
            let is_file = kind == FileType::RegularFile && found.st_mode & 0o111 == 0 && found.st_nlink == 1;
            if kind == FileType::Directory {
                waiting.push(path.join(OsStr::from_bytes(name.to_bytes())));
            } else if !is_file {
                return Ok(false);
            }
        }
        if is_empty && path.as_os_str() != "." {
            return Ok(false);
        }
    }
    Ok(true)
}
