//! Attempts on interfaces of the kernel that ordinary programs do not need.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use ringfence_jail::attack::{self, KernelChange};

use super::{Attempt, attempt};
use crate::targets::Targets;

const NEW_USER: i32 = 0x1000_0000;
const NEW_NET: i32 = 0x4000_0000;

const RAW: i32 = 3;
const DATAGRAM: i32 = 2;
const PACKETS_IN_ORDER: i32 = 5;
const NETLINK: i32 = 16;
const UEVENT: i32 = 15;
const NETFILTER: i32 = 12;

/// Socket families, each with its kind and protocol.
const FAMILIES: [(&str, i32, i32, i32); 7] = [
    ("AF_ALG", 38, PACKETS_IN_ORDER, 0),
    ("AF_PACKET", 17, RAW, 0),
    ("AF_NETLINK uevent", NETLINK, RAW, UEVENT),
    ("AF_VSOCK", 40, 1, 0),
    ("AF_BLUETOOTH", 31, RAW, 1),
    ("AF_TIPC", 30, PACKETS_IN_ORDER, 0),
    ("AF_RDS", 21, PACKETS_IN_ORDER, 0),
];

pub(super) fn attempts(id: u16, _targets: &Targets) -> Vec<Attempt> {
    match id {
        52 => vec![attempt("io_uring_setup", || attack::io_uring().map(drop))],
        53 => vec![attempt("io_uring_register", attack::io_uring_operations)],
        54 => vec![attempt("bpf", attack::bpf)],
        55 => vec![attempt("userfaultfd", attack::userfaultfd)],
        56 => vec![
            attempt("keyctl", attack::keyring),
            attempt("add_key", attack::add_key),
            attempt("request_key", attack::request_key),
        ],
        57 => vec![attempt("perf_event_open", attack::perf_event)],
        58 => vec![
            attempt("unshare", || attack::unshare(NEW_USER)),
            attempt("clone", || attack::clone_into(NEW_USER)),
            attempt("clone3", || attack::clone3_into(NEW_USER)),
        ],
        59 => vec![attempt("setns", || {
            let namespace: OwnedFd = File::open("/proc/self/ns/uts")?.into();
            attack::join(&namespace)
        })],
        60 => vec![
            attempt("init_module", || attack::change_kernel(KernelChange::Module)),
            attempt("finit_module", || attack::change_kernel(KernelChange::ModuleFile)),
            attempt("delete_module", || attack::change_kernel(KernelChange::NoModule)),
            attempt("kexec_load", || attack::change_kernel(KernelChange::Kernel)),
        ],
        61 => vec![
            attempt("clock_settime", attack::set_clock),
            attempt("adjtimex", attack::look_at_clock_adjustment),
        ],
        62 => vec![
            attempt("no randomization", || attack::personality(0x0004_0000)),
            attempt("readable means executable", || attack::personality(0x0040_0000)),
        ],
        63 => doors(),
        64 => families(),
        _ => vec![
            attempt("netfilter socket", || attack::socket(NETLINK, RAW, NETFILTER).map(drop)),
            attempt("interface settings", attack::resize_loopback),
            attempt("nested", || {
                attack::unshare(NEW_USER | NEW_NET)?;
                attack::socket(NETLINK, RAW, NETFILTER).map(drop)
            }),
        ],
    }
}

#[cfg(target_arch = "x86_64")]
fn doors() -> Vec<Attempt> {
    vec![attempt("int 0x80", attack::old_door), attempt("x32", attack::x32_door)]
}

#[cfg(not(target_arch = "x86_64"))]
fn doors() -> Vec<Attempt> {
    vec![attempt("32-bit", || -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    })]
}

/// Tries each family by `socket`, and by `socketpair`, which makes a socket before it finds that the family has no pairs.
fn families() -> Vec<Attempt> {
    let one = FAMILIES.into_iter().map(|(name, family, kind, protocol)| {
        attempt(name, move || -> io::Result<()> {
            attack::socket(family, kind, protocol).map(drop)
        })
    });
    let pairs = FAMILIES.into_iter().map(|(name, family, kind, protocol)| {
        // A pair of a family whose datagrams have another kind fails too early to show anything.
        let kind = if family == NETLINK { DATAGRAM } else { kind };
        attempt(format!("{name} pair"), move || {
            attack::socket_pair(family, kind, protocol)
        })
    });
    one.chain(pairs).collect()
}
