//! Attempts on devices and terminals.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use ringfence_jail::attack;
use rustix::fs::StatVfsMountFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{AttemptResult, ProbeAttempt, new_attempt, read_secret};
use crate::targets::AttemptTargets;

/// Devices that programs must not have.
pub(crate) const DEVICES: [&str; 10] = [
    "/dev/kvm",
    "/dev/fuse",
    "/dev/vsock",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/vda",
    "/dev/sda",
    "/dev/loop-control",
    "/dev/userfaultfd",
    "/dev/net/tun",
];

/// More shared memory than this counts as unlimited.
const MAX_SHARED_MEMORY: u64 = 256 << 20;

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        66 => {
            let node = |name: &'static str, block: bool| {
                let path = PathBuf::from(&targets.scratch).join(name);
                new_attempt(name, move || -> io::Result<()> {
                    attack::make_device(&path, block)?;
                    let opened = if block { Ok(()) } else { File::open(&path).map(drop) };
                    fs::remove_file(&path)?;
                    opened
                })
            };
            vec![node("character device", false), node("block device", true)]
        }
        67 => DEVICES
            .into_iter()
            .map(|name| {
                let path = targets.system_path(name);
                new_attempt(name, move || File::open(&path).map(drop))
            })
            .collect(),
        68 => vec![new_attempt("TIOCSTI", || {
            attack::push_into_terminal(open_terminal()?.as_fd())
        })],
        69 => vec![new_attempt("TIOCLINUX", || {
            attack::terminal_paste(open_terminal()?.as_fd())
        })],
        71 => shared_memory_attempts(targets),
        _ => Vec::new(),
    }
}

/// Opens a new terminal where there are any, else the one at descriptor 0.
fn open_terminal() -> io::Result<OwnedFd> {
    let own = || -> io::Result<OwnedFd> {
        let control = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&control)?;
        unlockpt(&control)?;
        let name = ptsname(&control, Vec::new())?;
        let terminal = rustix::fs::open(
            name,
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
            rustix::fs::Mode::empty(),
        )?;
        // The other end stays open as long as this process: a terminal without it is dead.
        std::mem::forget(control);
        Ok(terminal)
    };
    own().or_else(|_| io::stdin().as_fd().try_clone_to_owned())
}

fn shared_memory_attempts(targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let folder = targets.shared_memory.clone();
    let (canary, marker) = (format!("{folder}/{}", targets.marker), targets.marker.clone());
    let (programs, size) = (folder.clone(), folder);
    vec![
        new_attempt("shared", move || read_secret(&canary, &marker)),
        new_attempt("programs", move || match rustix::fs::statvfs(&programs) {
            Err(error) => AttemptResult::Refused(error.into()),
            Ok(found) if found.f_flag.contains(StatVfsMountFlags::NOEXEC) => {
                AttemptResult::WithoutEffect("noexec".to_owned())
            }
            Ok(_) => AttemptResult::Succeeded("programs start there".to_owned()),
        }),
        new_attempt("size", move || match rustix::fs::statvfs(&size) {
            Err(error) => AttemptResult::Refused(error.into()),
            Ok(found) if found.f_blocks * found.f_frsize <= MAX_SHARED_MEMORY => {
                AttemptResult::WithoutEffect(format!("{} bytes", found.f_blocks * found.f_frsize))
            }
            Ok(found) => AttemptResult::Succeeded(format!("{} bytes", found.f_blocks * found.f_frsize)),
        }),
    ]
}
