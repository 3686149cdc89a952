//! Measurements without control groups: the processes below the first one, and the bytes below a folder.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, openat, openat2, statat};
use rustix::io::Errno;

/// A file on the host: its device and inode number.
pub(crate) type FileId = (u64, u64);

/// What all processes of a sandbox use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProcessTotals {
    pub(crate) processes: usize,
    /// Bytes of memory; shared pages count by their share.
    pub(crate) memory: u64,
    pub(crate) cpu: Duration,
    /// Whether there are too many mappings to read their list to its end.
    pub(crate) too_many_mappings: bool,
}

impl ProcessTotals {
    /// The larger value of each field.
    pub(crate) fn max_each(self, other: ProcessTotals) -> ProcessTotals {
        ProcessTotals {
            processes: self.processes.max(other.processes),
            memory: self.memory.max(other.memory),
            cpu: self.cpu.max(other.cpu),
            too_many_mappings: self.too_many_mappings || other.too_many_mappings,
        }
    }
}

/// Bytes that the kernel keeps for one mapping of a process.
const MAPPING_BYTES: u64 = 256;
/// Bytes that it keeps for one mapping and each ancestor that the process was forked from: a link to the ancestor's pages.
const ANCESTOR_LINK_BYTES: u64 = 64;
/// The most mappings that one sandbox may have, whatever its limit: reading a longer list would take too long.
const MAX_MAPPINGS: u64 = 131_072;

/// Adds up the memory of several processes.
#[derive(Debug, Default)]
struct MemorySum {
    own: u64,
    mappings: u64,
    /// Links from mappings to those of ancestors.
    ancestor_links: u64,
    /// The extents of shared memory without a file, by its number. It counts once for all processes, and also where none of
    /// them accesses it.
    shared: HashMap<u64, u64>,
}

impl MemorySum {
    fn bytes(&self) -> u64 {
        let shared = self
            .shared
            .values()
            .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        self.own
            .saturating_add(shared)
            .saturating_add(self.mappings * MAPPING_BYTES)
            .saturating_add(self.ancestor_links.saturating_mul(ANCESTOR_LINK_BYTES))
    }
}

/// The totals of the processes below `first`, which is not counted. A process that ends meanwhile is left out.
pub(crate) fn process_totals(first: i32) -> ProcessTotals {
    let mut totals = ProcessTotals::default();
    let mut sum = MemorySum::default();
    for (pid, depth) in descendants(first) {
        totals.processes += threads(pid);
        if sum.mappings <= MAX_MAPPINGS {
            let before = sum.mappings;
            // When the first thread of a process has ended, another of its threads is read.
            let mut folders = std::iter::once(PathBuf::from(format!("/proc/{pid}"))).chain(tasks(pid));
            let _ = folders.find_map(|folder| add_memory(&folder, &mut sum));
            sum.ancestor_links += (sum.mappings - before) * depth;
        }
        totals.cpu += cpu_time(pid).unwrap_or_default();
    }
    totals.memory = sum.bytes();
    totals.too_many_mappings = sum.mappings > MAX_MAPPINGS;
    totals
}

/// `None` for what disappeared with its process or was closed.
pub(crate) fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As `unless_gone`, for what is in the folder of a thread. An ordinary user cannot inspect a process that is ending, which
/// is as good as gone.
pub(crate) fn unless_ending<T>(task: &Path, read: io::Result<T>) -> io::Result<Option<T>> {
    match unless_gone(read) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_ending(task) => Ok(None),
        read => read,
    }
}

/// Whether a thread has ended, or is exiting and runs no more of its program.
fn is_ending(task: &Path) -> bool {
    /// `PF_EXITING` in the ninth field of `stat`.
    const EXITING: u64 = 4;
    match unless_gone(fs::read_to_string(task.join("stat"))) {
        Ok(None) => true,
        Ok(Some(stat)) => {
            let flags = fields_of_stat(&stat).nth(6).and_then(|flags| flags.parse::<u64>().ok());
            flags.is_some_and(|flags| flags & EXITING != 0)
        }
        Err(_) => false,
    }
}

/// The fields of `stat` from the third on. The name in the second may hold any character, so they are counted from its
/// closing bracket.
fn fields_of_stat(stat: &str) -> impl Iterator<Item = &str> {
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace()
}

/// The folders of a process's threads.
pub(crate) fn tasks(pid: i32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok();
    entries.into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The processes below `first`.
pub(crate) fn processes_below(first: i32) -> Vec<i32> {
    descendants(first).into_iter().map(|(pid, _)| pid).collect()
}

/// The processes below `first`, each with the number of processes between both.
fn descendants(first: i32) -> Vec<(i32, u64)> {
    let mut found = Vec::new();
    let mut waiting: Vec<(i32, u64)> = children(first).into_iter().map(|pid| (pid, 0)).collect();
    while let Some((pid, depth)) = waiting.pop() {
        found.push((pid, depth));
        waiting.extend(children(pid).into_iter().map(|child| (child, depth + 1)));
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let lists = tasks(pid).filter_map(|task| fs::read_to_string(task.join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn threads(pid: i32) -> usize {
    tasks(pid).count().max(1)
}

/// Adds the memory of the process or thread in `folder`. Files in memory count for their places, and the kernel can reclaim
/// the pages of other files.
fn add_memory(folder: &Path, sum: &mut MemorySum) -> Option<()> {
    let text = fs::read_to_string(folder.join("smaps_rollup")).ok()?;
    let part = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kib * 1024)
    };
    let own = match part("Pss_Anon:") {
        Some(own) => own,
        None => part("Pss:")?,
    };
    sum.own = sum.own.saturating_add(own).saturating_add(page_tables(folder)?);
    let maps = BufReader::new(fs::File::open(folder.join("maps")).ok()?);
    for line in maps.lines().map_while(Result::ok) {
        sum.mappings += 1;
        if sum.mappings > MAX_MAPPINGS {
            break;
        }
        if let Some((number, bytes)) = shared_memory(&line) {
            let known = sum.shared.entry(number).or_default();
            *known = bytes.max(*known);
        }
    }
    Some(())
}

/// Bytes of a process's page tables, which no other count includes.
fn page_tables(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmPTE:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// The number and extent of shared memory that has no file.
fn shared_memory(line: &str) -> Option<(u64, u64)> {
    // A named mapping shows its name in place of that path.
    let line = match line.find(" [anon_shmem:") {
        Some(name) => line.get(..name)?,
        None => line.strip_suffix(" /dev/zero (deleted)")?,
    };
    let mut fields = line.split_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(fields.nth(1)?)?;
    let bytes = number(to)?.checked_sub(number(from)?)?.saturating_add(offset);
    Some((fields.nth(1)?.parse().ok()?, bytes))
}

fn cpu_time(pid: i32) -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = fields_of_stat(&text).collect();
    let ticks: u64 = fields
        .get(11..15)?
        .iter()
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Further names of files that count for nothing; each one more counts as a file, or walking them would have no end.
const MAX_OTHER_NAMES: u64 = 65_536;

/// How many bytes and files a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FolderUsage {
    /// Bytes that are stored on disk.
    pub bytes: u64,
    /// Number of files, folders, links and other entries.
    pub files: u64,
}

impl FolderUsage {
    /// The largest value, for a folder that cannot be read.
    pub(crate) const UNKNOWN: FolderUsage = FolderUsage {
        bytes: u64::MAX,
        files: u64::MAX,
    };

    /// Whether a field exceeds that of `most`.
    pub fn exceeds(&self, most: &FolderUsage) -> bool {
        self.bytes > most.bytes || self.files > most.files
    }

    /// The sum of both usages.
    #[must_use]
    pub fn plus(self, other: FolderUsage) -> FolderUsage {
        FolderUsage {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }

    /// The smaller value of each field.
    pub(crate) fn min_each(self, other: FolderUsage) -> FolderUsage {
        FolderUsage {
            bytes: self.bytes.min(other.bytes),
            files: self.files.min(other.files),
        }
    }

    /// The larger value of each field.
    pub(crate) fn max_each(self, other: FolderUsage) -> FolderUsage {
        FolderUsage {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
        }
    }
}

/// What is below `folder`, without following links; stops above `most`. A folder that cannot be read counts as too much: a
/// program must not be able to hide its files from the quota.
pub(crate) fn folder_usage(folder: BorrowedFd<'_>, most: FolderUsage) -> io::Result<FolderUsage> {
    folder_files(folder, most, &mut HashMap::new())
}

/// As `folder_use`, and records each file with its bytes.
pub(crate) fn folder_files(
    folder: BorrowedFd<'_>,
    most: FolderUsage,
    files: &mut HashMap<FileId, u64>,
) -> io::Result<FolderUsage> {
    let itself = fstat(folder)?;
    if itself.st_mode & OWNER_READ_BITS != OWNER_READ_BITS && !rustix::process::geteuid().is_root() {
        make_owner_readable(folder)?;
    }
    files.insert((itself.st_dev, itself.st_ino), 0);
    let mut held = FolderUsage::default();
    let mut other_names = 0;
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let handle = match openat2(folder, &path, flags, Mode::empty(), beneath) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(_) => return Ok(FolderUsage::UNKNOWN),
        };
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let found = match stat_entry(&handle, name) {
                Ok(found) => found,
                Err(Errno::NOENT) => continue,
                Err(_) => return Ok(FolderUsage::UNKNOWN),
            };
            let bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
            // A file with several names counts once, up to a number of names that can be walked.
            let is_new = files.insert((found.st_dev, found.st_ino), bytes).is_none();
            other_names += u64::from(!is_new);
            held = held.plus(FolderUsage {
                bytes: if is_new { bytes } else { 0 },
                files: u64::from(is_new || other_names > MAX_OTHER_NAMES),
            });
            if held.exceeds(&most) {
                return Ok(held);
            }
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                if found.st_mode & OWNER_READ_BITS != OWNER_READ_BITS && open_to_owner(&handle, name).is_err() {
                    return Ok(FolderUsage::UNKNOWN);
                }
                waiting.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Ok(held)
}

/// The permissions that let a folder's owner list and enter it.
const OWNER_READ_BITS: u32 = 0o500;

/// The status of `name` in `folder`. A program may have removed the folder's permissions since it was opened: then they are
/// set once more.
fn stat_entry(folder: &OwnedFd, name: &CStr) -> Result<Stat, Errno> {
    let look = || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match look() {
        Err(Errno::ACCESS) => {
            let _ = make_owner_readable(folder.as_fd());
            look()
        }
        found => found,
    }
}

/// Lets its owner read a folder again: its content counts, and as an ordinary user the host sees no more than the owner. No
/// other user gains access.
fn open_to_owner(above: &OwnedFd, name: &CStr) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    make_owner_readable(openat(above, name, flags, Mode::empty())?.as_fd())
}

/// Gives the owner's permissions of a folder back, by the handle alone: a program can take them from the root of its place.
pub(crate) fn restore_owner_access(folder: BorrowedFd<'_>) -> io::Result<()> {
    const OWNER_BITS: u32 = 0o700;
    let mode = fstat(folder)?.st_mode & 0o7777;
    if mode & OWNER_BITS == OWNER_BITS {
        return Ok(());
    }
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok(chmod(path, Mode::from_raw_mode(mode | OWNER_BITS))?)
}

fn make_owner_readable(folder: BorrowedFd<'_>) -> io::Result<()> {
    let mode = Mode::from_raw_mode((fstat(folder)?.st_mode & 0o7777) | OWNER_READ_BITS);
    // By number: the permissions of a path-only handle cannot be changed directly.
    Ok(chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

/// Whether only plain files are below `folder`: no executables, no hard links, no empty folder.
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
