//! Seccomp and Landlock: the two restrictions that a process puts on itself and can never remove.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;
#[cfg(feature = "host")]
use super::check_int;

/// One instruction of a classic BPF program, as the kernel reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The code of the operation.
    pub code: u16,
    /// Instructions to skip if the comparison is true.
    pub if_true: u8,
    /// Instructions to skip if the comparison is false.
    pub if_false: u8,
    /// The operand of the operation.
    pub value: u32,
}

#[repr(C)]
struct FilterProgram {
    length: libc::c_ushort,
    first: *const Instruction,
}

/// Whether a filter notifies a listener of the calls it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The filter has no listener.
    None,
    /// The filter makes a descriptor that reports stopped calls.
    New,
}

/// Filters this thread's system calls from now on. Signal-safe.
pub(crate) fn install_filter(instructions: &[Instruction], listener: Listener) -> io::Result<Option<OwnedFd>> {
    const WAIT_KILLABLE: libc::c_ulong = 1 << 5;
    let length = u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let code = FilterProgram {
        length,
        first: instructions.as_ptr(),
    };
    let flags = match listener {
        Listener::None => 0,
        Listener::New => libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE,
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: `code` and the instructions it points at are read during the call and outlive it.
    let mut answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const code) };
    if answer == -1 && listener == Listener::New {
        // Kernels before 5.19 do not know WAIT_KILLABLE.
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // SAFETY: as above.
        answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const code) };
    }
    let number = i32::try_from(check(answer)?).map_err(|_| io::ErrorKind::InvalidData)?;
    match listener {
        Listener::None => Ok(None),
        // SAFETY: the kernel just made this descriptor and nobody else knows it.
        Listener::New => Ok(Some(unsafe { OwnedFd::from_raw_fd(number) })),
    }
}

/// A system call that a filter stopped and reported.
#[cfg(feature = "host")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedCall {
    pub(crate) id: u64,
    /// The calling process, as this process numbers it (0: already gone).
    pub pid: u32,
    /// The system call's number.
    pub number: i32,
}

#[cfg(feature = "host")]
impl StoppedCall {
    /// The name of the call; `None` for a call that is not notified.
    pub fn name(&self) -> Option<&'static str> {
        crate::seccomp::notified_call_name(self.number)
    }
}

/// Receives the next stopped call. Blocks unless the descriptor was polled readable.
#[cfg(feature = "host")]
pub(crate) fn receive_stopped(listener: BorrowedFd<'_>) -> io::Result<StoppedCall> {
    const RECEIVE: libc::c_ulong = 0xc050_2100; // SECCOMP_IOCTL_NOTIF_RECV
    // SAFETY: an all-zero seccomp_notif is valid, and the kernel demands zeroes.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request fills a seccomp_notif (80 bytes, as its number says).
    check_int(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut notice) })?;
    Ok(StoppedCall {
        id: notice.id,
        pid: notice.pid,
        number: notice.data.nr,
    })
}

/// Refuses a stopped call with `EPERM`. A caller that is gone meanwhile is fine.
#[cfg(feature = "host")]
pub(crate) fn refuse_stopped(listener: BorrowedFd<'_>, stopped: StoppedCall) -> io::Result<()> {
    const SEND: libc::c_ulong = 0xc018_2101; // SECCOMP_IOCTL_NOTIF_SEND
    let answer = libc::seccomp_notif_resp {
        id: stopped.id,
        val: 0,
        error: -libc::EPERM,
        flags: 0,
    };
    // SAFETY: the request reads a seccomp_notif_resp (24 bytes, as its number says).
    match check_int(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) }) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The Landlock version of the kernel; an error where it has none. Signal-safe.
pub(crate) fn landlock_version() -> io::Result<u32> {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: with this flag the kernel demands a null pointer and size 0, and reads no memory.
    let version = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) })?;
    u32::try_from(version).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What a Landlock rule set handles: everything handled and not allowed is refused.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HandledRights {
    pub(crate) files: u64,
    pub(crate) net: u64,
    pub(crate) scoped: u64,
}

/// Makes a new, empty rule set. Signal-safe.
pub(crate) fn landlock_rules(handled: HandledRights, version: u32) -> io::Result<OwnedFd> {
    let size = match version {
        0..=3 => 8,
        4 | 5 => 16,
        _ => size_of::<HandledRights>(),
    };
    // SAFETY: `handled` is at least `size` bytes and outlives the call.
    let fd = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Allows `access` beneath the path that `place` is open on. Signal-safe.
pub(crate) fn landlock_allow(rules: BorrowedFd<'_>, place: BorrowedFd<'_>, access: u64) -> io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneathRule {
        access: u64,
        place: i32,
    }
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneathRule {
        access,
        place: place.as_raw_fd(),
    };
    // SAFETY: `rule` has the packed layout the kernel reads and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    })
    .map(|_| ())
}

/// Restricts this thread and its children to the rule set. Signal-safe.
pub(crate) fn landlock_restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes integers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(|_| ())
}
