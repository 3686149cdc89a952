//! Memory that programs hold outside any process: socket buffers, and files that have no name any more.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::OnceLock;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind,
    connect, getsockname, listen, sendmsg, socket_with,
};

use super::jailed_place::JailedPlace;
use crate::tree::{self, FileId};

/// A sandbox with this few sockets cannot hold much memory in them, so they are not checked.
const UNCHECKED_SOCKETS: u64 = 8;
/// Bytes counted for one socket where the kernel does not report its memory.
const MAX_SOCKET_BYTES: u64 = 256 << 10;

/// Bytes that a sandbox's sockets hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeldSocketMemory {
    /// Bytes of netlink sockets, which nothing else counts.
    pub(crate) netlink: u64,
    /// Bytes of TCP and UDP sockets, including the kernel's own overhead: a control group counts them in part, in full or
    /// not at all.
    pub(crate) internet: u64,
    /// Bytes of unix sockets, which a control group counts.
    pub(crate) unix: u64,
}

impl HeldSocketMemory {
    /// All bytes together, for a sandbox without a control group.
    pub(crate) fn total(self) -> u64 {
        self.netlink.saturating_add(self.internet).saturating_add(self.unix)
    }
}

/// Bytes in a sandbox's sockets, as the kernel reports them.
pub(crate) fn socket_memory(sandbox: &JailedPlace) -> io::Result<HeldSocketMemory> {
    let folder = format!("/proc/{}/net", sandbox.pid());
    let read = |name: &str| tree::unless_gone(fs::read_to_string(format!("{folder}/{name}")));
    // When its first process is gone, so is the sandbox.
    let Some(summary) = read("sockstat")? else {
        return Ok(HeldSocketMemory::default());
    };
    let newer = read("sockstat6")?.unwrap_or_default();
    // Connections that are not accepted yet belong to no process: only the count of their protocol includes them.
    let number = number_after(&summary, "sockets: used ")
        .unwrap_or(u64::MAX)
        .saturating_add(number_after(&summary, "TCP: inuse ").unwrap_or(0))
        .saturating_add(number_after(&newer, "TCP6: inuse ").unwrap_or(0));
    if number <= UNCHECKED_SOCKETS {
        return Ok(HeldSocketMemory::default());
    }
    let netlink = netlink_bytes(&read("netlink")?.unwrap_or_default());
    Ok(match sandbox.jailed.socket_bytes().ok().flatten() {
        Some(told) => HeldSocketMemory {
            netlink,
            internet: told.internet,
            unix: told.unix_of(number),
        },
        // Where the kernel cannot be queried, each socket counts as full.
        None => HeldSocketMemory {
            netlink,
            internet: number.saturating_mul(MAX_SOCKET_BYTES),
            unix: 0,
        },
    })
}

/// The number after `words` at the beginning of a line.
fn number_after(text: &str, words: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(words))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The sum of the received and sent bytes of all lines.
fn netlink_bytes(list: &str) -> u64 {
    let bytes = |line: &str| -> u64 {
        let fields = line.split_whitespace().skip(4).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum()
    };
    list.lines().skip(1).map(bytes).sum()
}

/// Where a sandbox may have files open: its processes, and descriptors in transit between them.
#[derive(Debug)]
pub(crate) struct DescriptorOwners {
    processes: Vec<i32>,
    /// The mount numbers of its places on disk, as descriptors report them.
    mounts: HashSet<String>,
    /// The devices of its places, as lists of mappings report them and as their files do. A file system with volumes has one
    /// number for the whole and one for each volume.
    devices: HashMap<u64, u64>,
    /// Connections that are not accepted yet may carry descriptors, and the kernel does not report whether they do.
    has_unaccepted: bool,
}

impl DescriptorOwners {
    /// The owners below the first process of a sandbox.
    pub(crate) fn from_sandbox(sandbox: &JailedPlace) -> io::Result<DescriptorOwners> {
        let first = sandbox.pid();
        let (mut mounts, mut devices) = (HashSet::new(), HashMap::new());
        // The handles refer to mounts of the sandbox.
        let table = tree::unless_gone(fs::read_to_string(format!("/proc/{first}/mountinfo")))?.unwrap_or_default();
        for (_, handle) in sandbox.places().filter(|(place, _)| place.is_on_disk()) {
            let (mount, device) = (mount_of(handle)?, rustix::fs::fstat(handle)?.st_dev);
            let whole = device_of(&table, &mount);
            devices.extend([(device, device), (whole.unwrap_or(device), device)]);
            mounts.insert(mount);
        }
        Ok(DescriptorOwners {
            processes: tree::processes_below(first),
            mounts,
            devices,
            has_unaccepted: !kernel_reports_unaccepted()
                && has_unaccepted(Path::new(&format!("/proc/{first}/net/unix")))?,
        })
    }
}

/// How much of a sandbox's open files the host sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Visibility {
    /// The host sees every open file.
    #[default]
    Complete,
    /// Descriptors are in transit between processes, or in a process that the host cannot inspect.
    Partial,
}

/// What a scan for deleted files found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletedBytes {
    pub(crate) bytes: u64,
    pub(crate) visibility: Visibility,
}

/// Tracks files without a name from one scan to the next.
#[derive(Debug, Default)]
pub(crate) struct DeletedFiles {
    /// Every file of the last scan, with its bytes.
    known: HashMap<FileId, u64>,
    /// Whether the last scan did not see everything.
    was_partial: bool,
}

impl DeletedFiles {
    /// Bytes of files that `owners` have open and that have no name any more. `named` are those that have one; a file that
    /// no scan saw, and of which only a mapping is left, counts as `largest`.
    pub(crate) fn count(
        &mut self,
        owners: &DescriptorOwners,
        named: HashMap<FileId, u64>,
        largest: u64,
    ) -> DeletedBytes {
        let mut scan = DescriptorScan::new(owners, &named);
        for pid in &owners.processes {
            scan.add_descriptors(*pid);
            scan.add_mappings(*pid);
            scan.add_executable(*pid);
        }
        let DescriptorScan {
            mut held,
            mapped,
            visibility,
            ..
        } = scan;
        for file in mapped.into_iter().filter(|file| !named.contains_key(file)) {
            held.entry(file)
                .or_insert_with(|| self.known.get(&file).copied().unwrap_or(largest));
        }
        let mut known = named;
        if visibility == Visibility::Partial {
            // Files of the last scan may still be held unseen. One partial scan proves nothing: most descriptors are
            // received within milliseconds.
            for (file, bytes) in self.known.drain() {
                if self.was_partial && !known.contains_key(&file) {
                    held.entry(file).or_insert(bytes);
                } else {
                    known.entry(file).or_insert(bytes);
                }
            }
        }
        let bytes = held.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        known.extend(held);
        self.known = known;
        self.was_partial = visibility == Visibility::Partial;
        DeletedBytes { bytes, visibility }
    }
}

/// What the processes of a sandbox have open.
#[derive(Debug)]
struct DescriptorScan<'a> {
    /// Files that have a name, on the devices of the places.
    named: &'a HashMap<FileId, u64>,
    devices: HashSet<u64>,
    owners: &'a DescriptorOwners,
    held: HashMap<FileId, u64>,
    mapped: HashSet<FileId>,
    visibility: Visibility,
}

impl<'a> DescriptorScan<'a> {
    fn new(owners: &'a DescriptorOwners, named: &'a HashMap<FileId, u64>) -> DescriptorScan<'a> {
        DescriptorScan {
            named,
            devices: named.keys().map(|(device, _)| *device).collect(),
            owners,
            held: HashMap::new(),
            mapped: HashSet::new(),
            visibility: if owners.has_unaccepted {
                Visibility::Partial
            } else {
                Visibility::Complete
            },
        }
    }

    /// The value that was read. Files that disappeared meanwhile belong to no process any more; any other failure makes the
    /// scan partial.
    fn read<T>(&mut self, task: &Path, read: io::Result<T>) -> Option<T> {
        tree::unless_ending(task, read).unwrap_or_else(|_| {
            self.visibility = Visibility::Partial;
            None
        })
    }

    /// Adds the descriptors of a process. Threads share them, and the first thread may have ended.
    fn add_descriptors(&mut self, pid: i32) {
        for task in tree::tasks(pid) {
            let has_some = match tree::unless_ending(&task, fs::read_dir(task.join("fd"))) {
                Ok(Some(entries)) => self.add_open_files(&task, entries),
                Ok(None) => false,
                // Ringfence's own child in the sandbox is not dumpable, so an ordinary user can only read what the kernel
                // reports about its files.
                Err(_) => self.add_reported_files(&task),
            };
            if has_some {
                break;
            }
        }
    }

    /// Adds the open files of a thread; returns whether there were any.
    fn add_open_files(&mut self, task: &Path, entries: fs::ReadDir) -> bool {
        let mut has_some = false;
        for entry in entries.flatten() {
            has_some = true;
            let Some(file) = self.read(task, fs::metadata(entry.path())) else {
                continue;
            };
            if file.nlink() == 0 && self.devices.contains(&file.dev()) {
                self.held
                    .insert((file.dev(), file.ino()), file.blocks().saturating_mul(512));
            } else if file.file_type().is_socket() && self.visibility == Visibility::Complete {
                let told = self.read(task, fs::read_to_string(task.join("fdinfo").join(entry.file_name())));
                if told.is_some_and(|told| has_queued_descriptors(&told)) {
                    self.visibility = Visibility::Partial;
                }
            }
        }
        has_some
    }

    /// Adds open files where the kernel reports only their numbers: a file on disk that has no name is not seen.
    fn add_reported_files(&mut self, task: &Path) -> bool {
        let Some(entries) = self.read(task, fs::read_dir(task.join("fdinfo"))) else {
            return false;
        };
        let mut has_some = false;
        for entry in entries.flatten() {
            has_some = true;
            let Some(told) = self.read(task, fs::read_to_string(entry.path())) else {
                continue;
            };
            if has_queued_descriptors(&told) || self.is_unnamed(&told) {
                self.visibility = Visibility::Partial;
            }
        }
        has_some
    }

    /// Whether a descriptor refers to a file on a place that has no name. A kernel that does not report the number leaves
    /// that open.
    fn is_unnamed(&self, told: &str) -> bool {
        let is_on_place = fdinfo_value(told, "mnt_id:").is_none_or(|mount| self.owners.mounts.contains(mount));
        let number = fdinfo_value(told, "ino:").and_then(|number| number.parse::<u64>().ok());
        let is_named = |number: u64| {
            self.devices
                .iter()
                .any(|device| self.named.contains_key(&(*device, number)))
        };
        is_on_place && !number.is_some_and(is_named)
    }

    /// Adds the executable of a process: it stays on disk although nothing of it may be mapped any more.
    fn add_executable(&mut self, pid: i32) {
        let path = format!("/proc/{pid}/exe");
        let is_gone = |link: &Path| link.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
        if !fs::read_link(&path).is_ok_and(|link| is_gone(&link)) {
            return;
        }
        if let Some(file) = self.read(Path::new(&format!("/proc/{pid}")), fs::metadata(&path))
            && file.nlink() == 0
            && self.devices.contains(&file.dev())
        {
            self.held
                .insert((file.dev(), file.ino()), file.blocks().saturating_mul(512));
        }
    }

    fn add_mappings(&mut self, pid: i32) {
        let mut lists = tree::tasks(pid).filter_map(|task| self.read(&task, fs::read_to_string(task.join("maps"))));
        let list = lists.find(|list| !list.is_empty()).unwrap_or_default();
        drop(lists);
        for line in list.lines().filter(|line| line.ends_with(" (deleted)")) {
            let Some((range, (device, number))) = parse_mapping(line) else {
                continue;
            };
            let Some(device) = self.owners.devices.get(&device) else {
                continue;
            };
            let file = (*device, number);
            match fs::metadata(format!("/proc/{pid}/map_files/{range}")) {
                Ok(found) => {
                    self.held.insert(file, found.blocks().saturating_mul(512));
                }
                Err(_) => {
                    self.mapped.insert(file);
                }
            }
        }
    }
}

/// Bounds the files that the host does not see by the growth of their file systems since the last complete scan.
#[derive(Debug)]
pub(crate) struct DiskGrowth {
    /// Bytes in use on the file systems at the last complete scan.
    in_use: u64,
    /// Bytes that the sandbox had of them.
    counted: u64,
    partial_looks: u32,
}

impl DiskGrowth {
    pub(crate) fn new(in_use: u64, counted: u64) -> DiskGrowth {
        DiskGrowth {
            in_use,
            counted,
            partial_looks: 0,
        }
    }

    /// The least that the sandbox holds when `counted` is what the host sees. Others may have written too, so one partial
    /// scan proves nothing: most descriptors in transit are received within milliseconds.
    pub(crate) fn bound(&mut self, in_use: u64, counted: u64, visibility: Visibility) -> u64 {
        /// Bytes that others may write meanwhile before the growth counts as the sandbox's.
        const OTHERS_BYTES: u64 = 64 << 20;
        if visibility == Visibility::Complete {
            *self = DiskGrowth::new(in_use, counted);
            return counted;
        }
        self.partial_looks += 1;
        if self.partial_looks < 2 {
            return counted;
        }
        let grown = in_use.saturating_sub(self.in_use).saturating_sub(OTHERS_BYTES);
        counted.max(self.counted.saturating_add(grown))
    }
}

/// Whether there are unix connections that are not accepted yet: no process holds what was sent through them. They are the
/// ones without a number in the kernel's list; a kernel without such sockets has no list.
fn has_unaccepted(list: &Path) -> io::Result<bool> {
    let list = tree::unless_gone(fs::read_to_string(list))?.unwrap_or_default();
    let mut numbers = list.lines().skip(1).map(|line| line.split_whitespace().nth(6));
    Ok(numbers.any(|number| number == Some("0")))
}

/// Whether this kernel reports at a listening socket how many descriptors wait in connections that are not accepted: tested
/// once.
fn kernel_reports_unaccepted() -> bool {
    static TELL: OnceLock<bool> = OnceLock::new();
    *TELL.get_or_init(|| probe_listener_report().unwrap_or(false))
}

fn probe_listener_report() -> io::Result<bool> {
    let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (listener, client) = (socket()?, socket()?);
    // The kernel chooses an unused address.
    bind(&listener, &SocketAddrUnix::new_unnamed())?;
    listen(&listener, 1)?;
    connect(&client, &getsockname(&listener)?)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut sent = SendAncillaryBuffer::new(&mut space);
    let file = fs::File::open("/dev/null")?;
    let descriptors = [file.as_fd()];
    sent.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(&client, &[io::IoSlice::new(b"x")], &mut sent, SendFlags::empty())?;
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", listener.as_raw_fd()))?;
    Ok(has_queued_descriptors(&told))
}

/// Whether a unix socket holds descriptors that no process has received yet.
fn has_queued_descriptors(told: &str) -> bool {
    fdinfo_value(told, "scm_fds:").is_some_and(|count| count != "0")
}

/// The value that the kernel reports for a descriptor under a name.
fn fdinfo_value<'a>(told: &'a str, name: &str) -> Option<&'a str> {
    told.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The number of the mount that one of this process's descriptors is on.
fn mount_of(handle: BorrowedFd<'_>) -> io::Result<String> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    fdinfo_value(&told, "mnt_id:")
        .map(str::to_owned)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The device of a mount in a `mountinfo` table.
fn device_of(table: &str, mount: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::split_whitespace);
    let mut fields = lines.find_map(|mut fields| (fields.next() == Some(mount)).then_some(fields))?;
    device(fields.nth(1)?, 10)
}

fn device(text: &str, radix: u32) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    let number = |text: &str| u32::from_str_radix(text, radix).ok();
    Some(rustix::fs::makedev(number(major)?, number(minor)?))
}

/// The address range and the file in a line of `maps`.
fn parse_mapping(line: &str) -> Option<(&str, FileId)> {
    let mut fields = line.split_whitespace();
    let range = fields.next()?;
    let device = device(fields.nth(2)?, 16)?;
    Some((range, (device, fields.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests;
