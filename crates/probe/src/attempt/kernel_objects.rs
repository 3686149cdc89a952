//! Objects that the kernel keeps for a program, or that make others wait, where few limits count them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use ringfence_jail::attack::{self, SpaceReservation};
use rustix::fs::FallocateFlags;
use rustix::process::{Pid, Resource, getppid, getrlimit, prlimit};

use super::{AttemptResult, ProbeAttempt, new_attempt};
use crate::targets::AttemptTargets;

const V4: i32 = 2;
const V6: i32 = 10;
const STREAM: i32 = 1;
const DATAGRAM: i32 = 2;

/// An option: its name, the family and kind of its socket, its level and number, its value.
type SocketOption = (&'static str, (i32, i32), (i32, i32), &'static [u8]);

/// A packet header that holds only padding.
const EMPTY_HEADER: &[u8] = &[0, 0, 1, 4, 0, 0, 0, 0];
const ON: &[u8] = &1u32.to_ne_bytes();
/// Timestamps of sent packets, with a copy of each: software stamps, on sending.
const STAMPS: &[u8] = &(1u32 << 1 | 1 << 4).to_ne_bytes();
/// The monotonic clock without flags.
const SENDING_TIME: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0];
const GROUP: [u8; 4] = [239, 1, 2, 3];
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

const OPTIONS: [SocketOption; 14] = [
    ("SO_TIMESTAMPING", (V4, DATAGRAM), (1, 37), STAMPS),
    ("SO_ZEROCOPY", (V4, STREAM), (1, 60), ON),
    ("SO_TXTIME", (V4, DATAGRAM), (1, 61), SENDING_TIME),
    ("TCP_MD5SIG", (V4, STREAM), (6, 14), &KEY),
    ("UDP_CORK", (V4, DATAGRAM), (17, 1), ON),
    ("IP_ADD_MEMBERSHIP", (V4, DATAGRAM), (0, 35), &MEMBERSHIP),
    ("IP_ADD_SOURCE_MEMBERSHIP", (V4, DATAGRAM), (0, 39), &WITH_SENDER),
    ("MCAST_JOIN_GROUP", (V4, DATAGRAM), (0, 42), &JOIN),
    ("IPV6_2292PKTOPTIONS", (V6, DATAGRAM), (41, 6), &[]),
    ("IPV6_JOIN_GROUP", (V6, DATAGRAM), (41, 20), &JOIN_6),
    ("IPV6_FLOWLABEL_MGR", (V6, DATAGRAM), (41, 32), &LABEL),
    ("IPV6_HOPOPTS", (V6, DATAGRAM), (41, 54), EMPTY_HEADER),
    ("IPV6_DSTOPTS", (V6, DATAGRAM), (41, 59), EMPTY_HEADER),
    ("IPV6_RTHDRDSTOPTS", (V6, DATAGRAM), (41, 55), EMPTY_HEADER),
];

/// An IPv4 socket address at `at`, within the bytes of a larger option.
const fn with_address<const LENGTH: usize>(at: usize, address: [u8; 4]) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[at] = V4.to_ne_bytes()[0];
    let mut index = 0;
    while index < address.len() {
        bytes[at + 4 + index] = address[index];
        index += 1;
    }
    bytes
}

/// A key of four bytes for connections to this host itself.
const KEY: [u8; 216] = {
    const LENGTH: usize = 130;
    let mut bytes = with_address(0, LOOPBACK);
    bytes[LENGTH] = 4;
    bytes
};
const MEMBERSHIP: [u8; 8] = [239, 1, 2, 5, 127, 0, 0, 1];
const WITH_SENDER: [u8; 12] = [239, 1, 2, 4, 127, 0, 0, 1, 10, 0, 0, 1];
/// A group to join on the first interface.
const JOIN: [u8; 136] = {
    let mut bytes = with_address(8, GROUP);
    bytes[0] = 1;
    bytes
};
/// The group `ff02::1:5` on the first interface.
const JOIN_6: [u8; 20] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5, 1, 0, 0, 0];
/// A label of the kernel's choice for packets to `::1`; the flags are create and exclusive.
const LABEL: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[15] = 1;
    bytes[21] = 1;
    bytes[22] = 1;
    bytes
};

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let scratch = PathBuf::from(&targets.scratch);
    match id {
        171 => options(),
        172 => vec![
            new_attempt("table of locks", grow_lock_table),
            new_attempt("rules for files", || -> io::Result<()> {
                let folder = File::open("/")?;
                attack::keep_rule(folder.as_fd())
            }),
        ],
        173 => reservations(&scratch),
        174 => leases(&scratch, targets),
        _ => limits_of_others(),
    }
}

fn options() -> Vec<ProbeAttempt> {
    let one = |(name, (family, kind), (level, option), value): SocketOption| {
        new_attempt(name, move || -> io::Result<()> {
            let socket = attack::socket(family, kind, 0)?;
            attack::set_option(socket.as_fd(), level, option, value)
        })
    };
    let filter = new_attempt("SO_ATTACH_FILTER", || -> io::Result<()> {
        attack::attach_filter(attack::socket(V4, DATAGRAM, 0)?.as_fd())
    });
    OPTIONS.into_iter().map(one).chain([filter]).collect()
}

/// The request may succeed without effect: the size of the table decides.
fn grow_lock_table() -> AttemptResult {
    const SLOTS: usize = 256;
    match attack::grow_lock_table(SLOTS) {
        Ok(SLOTS) => AttemptResult::Succeeded(format!("{SLOTS} slots")),
        Ok(slots) => AttemptResult::WithoutEffect(format!("{slots} slots")),
        Err(error) => AttemptResult::Refused(error),
    }
}

fn reservations(scratch: &std::path::Path) -> Vec<ProbeAttempt> {
    const BYTES: u32 = 1 << 20;
    let on_file = |name: &'static str, reserve: fn(&File) -> io::Result<()>| {
        let path = scratch.join(format!("reserved-{name}"));
        new_attempt(name, move || -> io::Result<()> {
            let file = File::create(&path)?;
            fs::remove_file(&path)?;
            reserve(&file)
        })
    };
    vec![
        on_file("FS_IOC_RESVSP", |file| {
            attack::reserve(file.as_fd(), SpaceReservation::Plain, BYTES.into())
        }),
        on_file("FS_IOC_RESVSP64", |file| {
            attack::reserve(file.as_fd(), SpaceReservation::Wide, BYTES.into())
        }),
        on_file("fallocate", |file| {
            Ok(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, BYTES.into())?)
        }),
    ]
}

fn leases(scratch: &std::path::Path, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let (own, shown) = (scratch.join("leased"), format!("{}/shared.txt", targets.shown));
    let folder = targets.shown.clone();
    vec![
        new_attempt("lease on a file of one's own", move || -> io::Result<()> {
            fs::write(&own, "x")?;
            attack::lease(File::open(&own)?.as_fd())
        }),
        new_attempt("lease on a shown file", move || -> io::Result<()> {
            attack::lease(File::open(shown)?.as_fd())
        }),
        new_attempt("notices of a shown folder", move || -> io::Result<()> {
            let folder: OwnedFd = File::open(folder)?.into();
            attack::notices(folder.as_fd())
        }),
    ]
}

/// Sets each limit of another process to its present value.
fn limits_of_others() -> Vec<ProbeAttempt> {
    fn set(pid: Option<Pid>) -> io::Result<()> {
        let own = getrlimit(Resource::Core);
        prlimit(pid, Resource::Core, own)?;
        Ok(())
    }
    vec![
        new_attempt("a child", || -> io::Result<()> {
            let child = attack::spawn_victim()?;
            set(Pid::from_raw(child.pid()))
        }),
        new_attempt("the parent", || set(getppid())),
        new_attempt("the first process", || set(Some(Pid::INIT))),
    ]
}
