//! What programs hold that belongs to no process: buffers of sockets, and files that have no name any more.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::OnceLock;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind,
    connect, getsockname, listen, sendmsg, socket_with,
};

use crate::running::Sandbox;
use crate::tree;

/// A file of a host's file system: its device and number.
pub(crate) type FileId = (u64, u64);

/// So few sockets cannot hold much, whatever they are: they are not looked at.
const FEW: u64 = 8;
/// What one socket may hold where the kernel does not say how much it does.
const SOCKET_BYTES: u64 = 256 << 10;

/// Who counts the buffers of unix and internet sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffers {
    /// A control group does.
    Grouped,
    /// Nobody else.
    Uncounted,
}

/// Bytes in the buffers of a sandbox's sockets that nobody else counts: those of netlink always.
pub(crate) fn sockets(sandbox: &Sandbox, buffers: Buffers) -> io::Result<u64> {
    let folder = format!("/proc/{}/net", sandbox.pid());
    let summary = fs::read_to_string(format!("{folder}/sockstat"))?;
    let number = summary.lines().find_map(|line| line.strip_prefix("sockets: used "));
    let number: u64 = number.and_then(|number| number.trim().parse().ok()).unwrap_or(u64::MAX);
    if number <= FEW {
        return Ok(0);
    }
    let netlink = netlink(&fs::read_to_string(format!("{folder}/netlink"))?);
    if buffers == Buffers::Grouped {
        return Ok(netlink);
    }
    // Where the kernel cannot be asked, each socket counts as full.
    let others = sandbox.jailed.socket_bytes().ok().flatten();
    Ok(netlink.saturating_add(others.unwrap_or_else(|| number.saturating_mul(SOCKET_BYTES))))
}

/// Adds up the received and the sent of each line.
fn netlink(list: &str) -> u64 {
    let bytes = |line: &str| -> u64 {
        let fields = line.split_whitespace().skip(4).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum()
    };
    list.lines().skip(1).map(bytes).sum()
}

/// Where a sandbox may have files open: its processes, and descriptors on their way between them.
#[derive(Debug)]
pub(crate) struct DescriptorOwners {
    processes: Vec<i32>,
    /// Connections that nobody has accepted may carry some, and the kernel does not tell whether they do.
    has_unaccepted: bool,
}

impl DescriptorOwners {
    /// Those below the first process of a sandbox.
    pub(crate) fn below(first: i32) -> io::Result<DescriptorOwners> {
        Ok(DescriptorOwners {
            processes: tree::below(first),
            has_unaccepted: !listeners_tell() && has_unaccepted(Path::new(&format!("/proc/{first}/net/unix")))?,
        })
    }
}

/// How much the host sees of what a sandbox has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Visibility {
    /// Everything.
    #[default]
    Complete,
    /// Descriptors are on their way from one process to another, or in a process that cannot be looked into.
    Partial,
}

/// What a look at deleted files found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletedBytes {
    pub(crate) bytes: u64,
    pub(crate) visibility: Visibility,
}

/// Follows files without a name, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct DeletedFiles {
    /// Every file seen at the last look, with its bytes.
    known: HashMap<FileId, u64>,
}

impl DeletedFiles {
    /// Bytes of files on `devices` that `owners` have and that have no name any more. `named` are those that have one; a file
    /// that nobody ever saw, and of which only a mapping is left, counts as `largest`.
    pub(crate) fn count(
        &mut self,
        owners: &DescriptorOwners,
        named: HashMap<FileId, u64>,
        largest: u64,
    ) -> DeletedBytes {
        let devices: HashSet<u64> = named.keys().map(|(device, _)| *device).collect();
        let mut scan = DescriptorScan::default();
        if owners.has_unaccepted {
            scan.visibility = Visibility::Partial;
        }
        for pid in &owners.processes {
            scan.add_descriptors(*pid, &devices);
            scan.add_mappings(*pid, &devices);
        }
        let mapped = std::mem::take(&mut scan.mapped);
        for file in mapped.into_iter().filter(|file| !named.contains_key(file)) {
            let bytes = self.known.get(&file).copied().unwrap_or(largest);
            scan.held.entry(file).or_insert(bytes);
        }
        if scan.visibility == Visibility::Partial {
            let gone = self.known.iter().filter(|(file, _)| !named.contains_key(file));
            for (file, bytes) in gone {
                scan.held.entry(*file).or_insert(*bytes);
            }
        }
        let bytes = scan.held.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        self.known = named;
        self.known.extend(scan.held);
        DeletedBytes {
            bytes,
            visibility: scan.visibility,
        }
    }
}

/// What the processes of a sandbox have open.
#[derive(Debug, Default)]
struct DescriptorScan {
    held: HashMap<FileId, u64>,
    mapped: HashSet<FileId>,
    visibility: Visibility,
}

impl DescriptorScan {
    /// What was read, if it was. What went away meanwhile is nobody's any more; what cannot be read for another reason may be anything.
    fn read<T>(&mut self, read: io::Result<T>) -> Option<T> {
        tree::unless_gone(read).unwrap_or_else(|_| {
            self.visibility = Visibility::Partial;
            None
        })
    }

    /// Threads share their descriptors, and the first one may have ended.
    fn add_descriptors(&mut self, pid: i32, devices: &HashSet<u64>) {
        for task in tree::tasks(pid) {
            let entries = self.read(fs::read_dir(task.join("fd")));
            let mut is_empty = true;
            for entry in entries.into_iter().flatten().flatten() {
                is_empty = false;
                let Some(file) = self.read(fs::metadata(entry.path())) else {
                    continue;
                };
                if file.nlink() == 0 && devices.contains(&file.dev()) {
                    self.held
                        .insert((file.dev(), file.ino()), file.blocks().saturating_mul(512));
                } else if file.file_type().is_socket() && self.visibility == Visibility::Complete {
                    let told = self.read(fs::read_to_string(task.join("fdinfo").join(entry.file_name())));
                    if told.is_some_and(|told| carries(&told)) {
                        self.visibility = Visibility::Partial;
                    }
                }
            }
            if !is_empty {
                break;
            }
        }
    }

    fn add_mappings(&mut self, pid: i32, devices: &HashSet<u64>) {
        let mut lists = tree::tasks(pid).filter_map(|task| self.read(fs::read_to_string(task.join("maps"))));
        let list = lists.find(|list| !list.is_empty()).unwrap_or_default();
        drop(lists);
        for line in list.lines().filter(|line| line.ends_with(" (deleted)")) {
            let Some((range, file)) = mapping(line) else { continue };
            if !devices.contains(&file.0) {
                continue;
            }
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

/// Bounds files that the host does not see by what their file systems grew since it saw everything.
#[derive(Debug)]
pub(crate) struct DiskGrowth {
    /// Bytes in use on the file systems when everything was seen last.
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

    /// The least that the sandbox has, where it is `counted` as far as it is seen. Others may have written too, so one look at which
    /// something is on its way says nothing: most such descriptors are taken within milliseconds.
    pub(crate) fn bound(&mut self, in_use: u64, counted: u64, visibility: Visibility) -> u64 {
        /// What others may write beside the sandbox without it being taken for the sandbox's.
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

/// Whether there are connections of unix sockets that nobody has accepted yet: what was sent through them is in nobody's hands. They are the ones
/// without a number in the kernel's list; a kernel without such sockets has no list.
fn has_unaccepted(list: &Path) -> io::Result<bool> {
    let list = tree::unless_gone(fs::read_to_string(list))?.unwrap_or_default();
    let mut numbers = list.lines().skip(1).map(|line| line.split_whitespace().nth(6));
    Ok(numbers.any(|number| number == Some("0")))
}

/// Whether this kernel tells with a listening socket how many descriptors wait in connections that nobody has accepted: asked once, by trying.
fn listeners_tell() -> bool {
    static TELL: OnceLock<bool> = OnceLock::new();
    *TELL.get_or_init(|| descriptors_told_by_a_listener().unwrap_or(false))
}

fn descriptors_told_by_a_listener() -> io::Result<bool> {
    let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (listener, client) = (socket()?, socket()?);
    // The kernel chooses an address that nobody else has.
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
    Ok(carries(&told))
}

/// Whether a unix socket holds descriptors that nobody has taken out yet.
fn carries(told: &str) -> bool {
    let count = told.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    count.is_some_and(|count| count.trim() != "0")
}

/// The addresses and the file of a line of `maps`.
fn mapping(line: &str) -> Option<(&str, FileId)> {
    let mut fields = line.split_whitespace();
    let range = fields.next()?;
    let (major, minor) = fields.nth(2)?.split_once(':')?;
    let device = rustix::fs::makedev(
        u32::from_str_radix(major, 16).ok()?,
        u32::from_str_radix(minor, 16).ok()?,
    );
    Some((range, (device, fields.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests;
