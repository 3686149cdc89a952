//! What the kernel keeps for a program where few limits apply: socket options, tables, rules, reserved disk space, leases.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::raw_call;
use crate::sys::check_int;
use crate::sys::fence::{self, HandledRights, Instruction};

/// Sets an option of `socket` to these bytes.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the pointer and length describe `value`, which the call reads; where it holds addresses, the kernel checks them and reads there.
    check_int(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) }).map(|_| ())
}

/// Lets an IPv4 socket keep the errors of what it sends until they are read.
pub fn keep_errors(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, &1u32.to_ne_bytes())
}

/// Attaches a filter to `socket` that lets everything pass.
pub fn attach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct SocketFilterProgram {
        length: libc::c_ushort,
        first: *const Instruction,
    }
    let pass = Instruction {
        code: 0x06,
        if_true: 0,
        if_false: 0,
        value: 0xffff,
    };
    let program = SocketFilterProgram {
        length: 1,
        first: &raw const pass,
    };
    let (level, name, size) = (
        libc::SOL_SOCKET,
        libc::SO_ATTACH_FILTER,
        size_of::<SocketFilterProgram>(),
    );
    let size = libc::socklen_t::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (socket, address) = (socket.as_raw_fd(), (&raw const program).cast());
    // SAFETY: the call reads a sock_fprog, which `program` is, and the one instruction that it points at; both outlive the call.
    check_int(unsafe { libc::setsockopt(socket, level, name, address, size) }).map(|_| ())
}

const FUTEX_HASH: usize = 78;

/// Asks for a table of `slots` for this process's locks; returns its size afterwards.
pub fn grow_lock_table(slots: usize) -> io::Result<usize> {
    const SET: usize = 1;
    const GET: usize = 2;
    // SAFETY: this request takes integers.
    unsafe { raw_call(libc::SYS_prctl, [FUTEX_HASH, SET, slots, 0, 0, 0]) }?;
    // SAFETY: as above.
    let has = unsafe { raw_call(libc::SYS_prctl, [FUTEX_HASH, GET, 0, 0, 0, 0]) }?;
    usize::try_from(has).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Makes a Landlock rule set with one rule in it.
pub fn keep_rule(folder: BorrowedFd<'_>) -> io::Result<()> {
    const RUN: u64 = 1;
    const FIRST_VERSION: u32 = 1;
    let handled = HandledRights {
        files: RUN,
        ..HandledRights::default()
    };
    let rules = fence::landlock_rules(handled, FIRST_VERSION)?;
    fence::landlock_allow(rules.as_fd(), folder, RUN)
}

/// Requests to a file that reserve a range beyond its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceReservation {
    /// The request `FS_IOC_RESVSP`, number 40.
    Plain,
    /// The request `FS_IOC_RESVSP64`, number 42.
    Wide,
}

/// Reserves `bytes` for `file` by such a request.
pub fn reserve(file: BorrowedFd<'_>, by: SpaceReservation, bytes: i64) -> io::Result<()> {
    #[repr(C)]
    struct FileRange {
        kind: libc::c_short,
        from: libc::c_short,
        start: i64,
        length: i64,
        rest: [u32; 6],
    }
    let range = FileRange {
        kind: 0,
        from: 0,
        start: 0,
        length: bytes,
        rest: [0; 6],
    };
    let request: usize = match by {
        SpaceReservation::Plain => 0x4030_5828,
        SpaceReservation::Wide => 0x4030_582a,
    };
    let (file, address) = (file.as_raw_fd().cast_unsigned() as usize, (&raw const range) as usize);
    // SAFETY: both requests read a space_resv of 48 bytes, which is the size of `range`.
    unsafe { raw_call(libc::SYS_ioctl, [file, request, address, 0, 0, 0]) }.map(drop)
}

/// Takes a lease on `file`: another process that opens it waits for this process.
pub fn lease(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this command takes integers.
    check_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }).map(|_| ())
}

/// Asks for a signal about changes in `folder`.
pub fn notices(folder: BorrowedFd<'_>) -> io::Result<()> {
    const OF_READING: libc::c_int = 1;
    // SAFETY: this command takes integers.
    check_int(unsafe { libc::fcntl(folder.as_raw_fd(), libc::F_NOTIFY, OF_READING) }).map(|_| ())
}

/// Maps the first `bytes` of `file`, and never removes the mapping.
pub fn keep_mapped(file: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let (none, file) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new shared read-only mapping of a file; the kernel chooses a free place, which nobody is told.
    let place = unsafe { libc::mmap(none, bytes, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    if place == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
