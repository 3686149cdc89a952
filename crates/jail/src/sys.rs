//! The system calls of the workspace, one safe and total function each.
//!
//! Functions take ordinary types and return `io::Result`. Those marked *signal-safe* neither allocate nor take a lock, so
//! they may run between `clone3` and `execveat`, where another thread may have held the allocator's lock when the copy was
//! made. Every call goes through `libc::syscall` or a libc wrapper that is a plain system call.
#![expect(
    unsafe_code,
    reason = "this module is the one place where the kernel is called directly"
)]
#![cfg_attr(
    not(all(feature = "host", feature = "inside")),
    expect(dead_code, reason = "the host and the worker each use their part")
)]

pub(crate) mod fd;
pub(crate) mod fence;
pub(crate) mod limit;
pub(crate) mod mount;
pub(crate) mod process;
pub mod socket;

#[cfg(feature = "attack")]
pub(crate) mod attack;

use std::io;

/// Turns the kernel's `-1` into the error it left in `errno`. Signal-safe.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// As `check`, for calls that return an `int`. Signal-safe.
fn check_int(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
