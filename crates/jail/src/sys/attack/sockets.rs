//! Sockets of rare families, the loopback interface, and terminals.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::check_int;

/// Makes a socket of any family.
pub fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket takes integers.
    let fd = check_int(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just made `fd` and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a pair of sockets of any family. For a family without pairs the kernel makes a socket before it reports that: this
/// error counts as a success here.
pub fn socket_pair(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` is room for two integers, which is what socketpair fills.
    match check_int(unsafe { libc::socketpair(family, kind | libc::SOCK_CLOEXEC, protocol, ends.as_mut_ptr()) }) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            for end in ends {
                // SAFETY: socketpair succeeded: both numbers are open and new, with no other owner.
                drop(unsafe { OwnedFd::from_raw_fd(end) });
            }
            Ok(())
        }
    }
}

/// Gives the loopback interface of this network namespace its usual largest packet size.
pub fn resize_loopback() -> io::Result<()> {
    #[repr(C)]
    struct InterfaceRequest {
        name: [u8; libc::IFNAMSIZ],
        size: libc::c_int,
        rest: [u8; 20],
    }
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        size: 65536,
        rest: [0; 20],
    };
    request.name[..2].copy_from_slice(b"lo");
    // SAFETY: SIOCSIFMTU reads an ifreq of 40 bytes, which is the size of `request`.
    check_int(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &raw const request) }).map(|_| ())
}

/// Pushes a character into `terminal` as if a person had typed it; first makes it the terminal of this session if it has
/// none.
pub fn push_into_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setsid takes nothing; it fails where this process leads a group already, which is fine.
    unsafe { libc::setsid() };
    // SAFETY: TIOCSCTTY takes an integer; a terminal that belongs to a session already is not stolen with 0.
    unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) };
    let character = b'x';
    // SAFETY: TIOCSTI reads one byte, which outlives the call.
    check_int(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, &raw const character) }).map(|_| ())
}

/// Asks a console for its shift state by the request that can also paste.
pub fn terminal_paste(terminal: BorrowedFd<'_>) -> io::Result<()> {
    const TIOCLINUX: libc::c_ulong = 0x541c;
    let mut subcode = [6u8, 0, 0, 0];
    // SAFETY: this request reads one byte and, for this subcode, fills one; `subcode` has four.
    check_int(unsafe { libc::ioctl(terminal.as_raw_fd(), TIOCLINUX, subcode.as_mut_ptr()) }).map(|_| ())
}
