//! Attempts on interfaces of the kernel that ordinary programs do not need.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use ringfence_jail::attack::{self, KernelChange};

use super::{ProbeAttempt, new_attempt};
use crate::targets::AttemptTargets;

const NEW_USER: i32 = 0x1000_0000;
const NEW_NET: i32 = 0x4000_0000;

const RAW_SOCKET: i32 = 3;
const DATAGRAM_SOCKET: i32 = 2;
const SEQPACKET_SOCKET: i32 = 5;
const NETLINK: i32 = 16;
const UEVENT: i32 = 15;
const NETFILTER: i32 = 12;

/// Socket families, each with its kind and protocol.
const SOCKET_FAMILIES: [(&str, i32, i32, i32); 7] = [
    ("AF_ALG", 38, SEQPACKET_SOCKET, 0),
    ("AF_PACKET", 17, RAW_SOCKET, 0),
    ("AF_NETLINK uevent", NETLINK, RAW_SOCKET, UEVENT),
    ("AF_VSOCK", 40, 1, 0),
    ("AF_BLUETOOTH", 31, RAW_SOCKET, 1),
    ("AF_TIPC", 30, SEQPACKET_SOCKET, 0),
    ("AF_RDS", 21, SEQPACKET_SOCKET, 0),
];

pub(super) fn attempts(id: u16, _targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        52 => vec![new_attempt("io_uring_setup", || attack::open_io_uring().map(drop))],
        53 => vec![new_attempt("io_uring_register", attack::io_uring_operations)],
        54 => vec![new_attempt("bpf", attack::make_bpf_map)],
        55 => vec![new_attempt("userfaultfd", attack::open_userfaultfd)],
        56 => vec![
            new_attempt("keyctl", attack::own_keyring),
            new_attempt("add_key", attack::add_key),
            new_attempt("request_key", attack::request_key),
        ],
        57 => vec![new_attempt("perf_event_open", attack::open_perf_event)],
        58 => vec![
            new_attempt("unshare", || attack::unshare(NEW_USER)),
            new_attempt("clone", || attack::clone_into(NEW_USER)),
            new_attempt("clone3", || attack::clone3_into(NEW_USER)),
        ],
        59 => vec![new_attempt("setns", || {
            let namespace: OwnedFd = File::open("/proc/self/ns/uts")?.into();
            attack::join_namespace(&namespace)
        })],
        60 => vec![
            new_attempt("init_module", || attack::change_kernel(KernelChange::Module)),
            new_attempt("finit_module", || attack::change_kernel(KernelChange::ModuleFile)),
            new_attempt("delete_module", || attack::change_kernel(KernelChange::NoModule)),
            new_attempt("kexec_load", || attack::change_kernel(KernelChange::Kernel)),
        ],
        61 => vec![
            new_attempt("clock_settime", attack::set_clock),
            new_attempt("adjtimex", attack::read_clock_adjustment),
        ],
        62 => vec![
            new_attempt("no randomization", || attack::set_personality(0x0004_0000)),
            new_attempt("readable means executable", || attack::set_personality(0x0040_0000)),
        ],
        63 => doors(),
        64 => family_attempts(),
        _ => vec![
            new_attempt("netfilter socket", || {
                attack::socket(NETLINK, RAW_SOCKET, NETFILTER).map(drop)
            }),
            new_attempt("interface settings", attack::resize_loopback),
            new_attempt("nested", || {
                attack::unshare(NEW_USER | NEW_NET)?;
                attack::socket(NETLINK, RAW_SOCKET, NETFILTER).map(drop)
            }),
        ],
    }
}

#[cfg(target_arch = "x86_64")]
fn doors() -> Vec<ProbeAttempt> {
    vec![
        new_attempt("int 0x80", attack::getpid_by_int80),
        new_attempt("x32", attack::getpid_by_x32),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn doors() -> Vec<ProbeAttempt> {
    vec![attempt("32-bit", || -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    })]
}

/// Tries each family by `socket`, and by `socketpair`, which makes a socket before it finds that the family has no pairs.
fn family_attempts() -> Vec<ProbeAttempt> {
    let one = SOCKET_FAMILIES.into_iter().map(|(name, family, kind, protocol)| {
        new_attempt(name, move || -> io::Result<()> {
            attack::socket(family, kind, protocol).map(drop)
        })
    });
    let pairs = SOCKET_FAMILIES.into_iter().map(|(name, family, kind, protocol)| {
        // A pair of a family whose datagrams have another kind fails too early to show anything.
        let kind = if family == NETLINK { DATAGRAM_SOCKET } else { kind };
        new_attempt(format!("{name} pair"), move || {
            attack::socket_pair(family, kind, protocol)
        })
    });
    one.chain(pairs).collect()
}
