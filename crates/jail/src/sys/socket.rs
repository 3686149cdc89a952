//! Socket pairs, and messages that carry descriptors with their bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::check_int;

/// The most descriptors that one message may carry.
pub const MAX_DESCRIPTORS: usize = 16;

const CONTROL_BUFFER_BYTES: usize = 128;

#[repr(C, align(8))]
struct ControlBuffer([u8; CONTROL_BUFFER_BYTES]);

/// What kind of socket a pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairKind {
    /// A stream of bytes without message boundaries.
    Stream,
    /// Whole packets, in order.
    Packet,
}

/// A connected pair of unix sockets, close-on-exec.
pub fn pair(kind: PairKind) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = match kind {
        PairKind::Stream => libc::SOCK_STREAM,
        PairKind::Packet => libc::SOCK_SEQPACKET,
    };
    let mut ends = [-1; 2];
    // SAFETY: `ends` is room for two integers, which is what socketpair fills.
    check_int(unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) })?;
    // SAFETY: socketpair succeeded: the first number is open and new, with no other owner.
    let first = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: likewise the second number.
    let second = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((first, second))
}

/// Sends `bytes` together with `descriptors`; returns how many bytes were sent. Signal-safe.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<usize> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = ControlBuffer([0; CONTROL_BUFFER_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        attach_descriptors(&mut message, &mut control, descriptors);
    }
    // SAFETY: `message` points at `part`, `bytes` and `control`, which all live until the call is over.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn attach_descriptors(message: &mut libc::msghdr, control: &mut ControlBuffer, descriptors: &[RawFd]) {
    let bytes = u32::try_from(size_of_val(descriptors)).unwrap_or(0);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE is arithmetic; at most 16 descriptors give 80 bytes, less than the buffer.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
    // SAFETY: msg_control points at an aligned buffer of at least msg_controllen bytes, so a first header fits.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const *message) };
    let Some(header) = std::ptr::NonNull::new(header) else {
        return;
    };
    // SAFETY: CMSG_LEN is arithmetic.
    let length = unsafe { libc::CMSG_LEN(bytes) } as _;
    let filled = libc::cmsghdr {
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
        cmsg_len: length,
    };
    // SAFETY: `header` is inside the aligned control buffer.
    unsafe { header.write(filled) };
    // SAFETY: CMSG_DATA is arithmetic on a header inside the control buffer.
    let data = unsafe { libc::CMSG_DATA(header.as_ptr()) };
    // SAFETY: CMSG_SPACE made room for exactly these bytes after the header; the regions do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(descriptors.as_ptr().cast::<u8>(), data, bytes as usize) };
}

/// Receives one message into `buffer`: returns the number of bytes and the descriptors that came with them (close-on-exec).
/// A message whose descriptors were cut off is an error.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = ControlBuffer([0; CONTROL_BUFFER_BYTES]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BUFFER_BYTES as _;
    // SAFETY: `message` points at `part`, `buffer` and `control`, all writable and alive until the call is over.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let descriptors = detach_descriptors(&message);
    if message.msg_flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC) != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut short"));
    }
    Ok((got, descriptors))
}

/// Receives bytes alone. Signal-safe.
pub(crate) fn receive_bytes(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `buffer`, which is borrowed for the call.
    let got = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Makes closing this connection drop data in transit and reset the peer.
#[cfg(feature = "inside")]
pub(crate) fn reset_when_closed(connection: BorrowedFd<'_>) -> io::Result<()> {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = libc::socklen_t::try_from(size_of_val(&now)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: the pointer and size describe `now`, which outlives the call.
    check_int(unsafe { libc::setsockopt(connection.as_raw_fd(), level, option, (&raw const now).cast(), size) })
        .map(|_| ())
}

/// Makes sends and receives on this socket fail after `patience`.
#[cfg(feature = "host")]
pub(crate) fn set_timeout(socket: BorrowedFd<'_>, patience: std::time::Duration) -> io::Result<()> {
    let seconds = libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX);
    let time = libc::timeval {
        tv_sec: seconds,
        tv_usec: libc::suseconds_t::from(patience.subsec_micros()),
    };
    let size = libc::socklen_t::try_from(size_of_val(&time)).unwrap_or(0);
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let (socket, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
        // SAFETY: `time` is the structure that this option reads, of the size given.
        check_int(unsafe { libc::setsockopt(socket, level, option, (&raw const time).cast(), size) })?;
    }
    Ok(())
}

fn detach_descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut owned = Vec::new();
    // SAFETY: the kernel filled msg_control and msg_controllen consistently.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const *message) };
    while let Some(found) = std::ptr::NonNull::new(header) {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR only answer headers that lie whole in the buffer.
        let known = unsafe { found.read() };
        if known.cmsg_level == libc::SOL_SOCKET && known.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: CMSG_LEN(0) is arithmetic.
            let overhead = unsafe { libc::CMSG_LEN(0) } as usize;
            let length = known.cmsg_len.saturating_sub(overhead);
            // SAFETY: CMSG_DATA is arithmetic on a header inside the buffer.
            let data = unsafe { libc::CMSG_DATA(found.as_ptr()) };
            // SAFETY: cmsg_len says that so many bytes follow the header, inside the buffer; they are not changed here.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast_const(), length) };
            for number in bytes.chunks_exact(size_of::<RawFd>()) {
                let fd = number.try_into().map_or(-1, RawFd::from_ne_bytes);
                // SAFETY: the kernel just installed this descriptor for us; nobody else owns it.
                owned.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: `found` is a header of this message.
        header = unsafe { libc::CMSG_NXTHDR(&raw const *message, found.as_ptr()) };
    }
    owned
}

/// Opens a socket that lists the sockets of this network namespace for its holder; `None`: this kernel cannot. Signal-safe.
pub(crate) fn open_socket_listing() -> io::Result<Option<OwnedFd>> {
    const SOCK_DIAG: libc::c_int = 4;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes integers.
    let fd = match check_int(unsafe { libc::socket(libc::AF_NETLINK, kind, SOCK_DIAG) }) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT)) => {
            return Ok(None);
        }
        other => other?,
    };
    // SAFETY: the kernel just made `fd` and nobody else knows it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Brings the loopback interface of this network namespace up. Signal-safe.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    #[repr(C)]
    struct LoopbackRequest {
        name: [u8; libc::IFNAMSIZ],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    // SAFETY: socket takes integers.
    let fd = check_int(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel just made `fd` and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = LoopbackRequest {
        name: [0; libc::IFNAMSIZ],
        flags: 0,
        rest: [0; 22],
    };
    request.name[..2].copy_from_slice(b"lo");
    request.flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: SIOCSIFFLAGS reads an ifreq of 40 bytes, which is the size of `request`.
    check_int(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }).map(|_| ())
}
