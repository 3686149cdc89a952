//! Descriptors: opening below a handle, duplicating to a number, closing ranges.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{check, check_int};

/// Opens `path` below `dir` (`None`: the current folder) with raw `flags`, always close-on-exec. Signal-safe.
pub(crate) fn open_at(dir: Option<BorrowedFd<'_>>, path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let dir = dir.map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd());
    // SAFETY: `path` is a NUL-terminated string that outlives the call; the other arguments are integers.
    let fd = unsafe { libc::openat(dir, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    let fd = check_int(fd)?;
    // SAFETY: the kernel just made `fd` and nobody else knows it, so this is its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens `path` beneath `root` as if `root` were `/`, through no link of any kind (`ELOOP` where there is one), always
/// close-on-exec. Signal-safe.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero structure is valid: it is integers only.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((flags | libc::O_CLOEXEC).cast_unsigned());
    how.mode = u64::from(mode);
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let size = size_of::<libc::open_how>();
    let root = root.as_raw_fd();
    // SAFETY: `path` and `how` outlive the call, and the size given is that of the structure.
    let fd = unsafe { libc::syscall(libc::SYS_openat2, root, path.as_ptr(), &raw const how, size) };
    let fd = RawFd::try_from(check(fd)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just made `fd` and nobody else knows it, so this is its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the folder `name` in `dir`; one that exists is fine. Signal-safe.
pub(crate) fn make_folder(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: `name` is a NUL-terminated string that outlives the call; the handle is borrowed.
    match check_int(unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) }) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Makes the empty file `name` in `dir`; one that exists is fine. Signal-safe.
pub(crate) fn make_file(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: `name` is a NUL-terminated string that outlives the call; the handle is borrowed.
    match check_int(unsafe { libc::mknodat(dir.as_raw_fd(), name.as_ptr(), libc::S_IFREG | mode, 0) }) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Makes the whiteout `path` below `dir`: in a layer it hides that name. Signal-safe.
pub(crate) fn make_whiteout(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is a NUL-terminated string that outlives the call; the handle is borrowed.
    check_int(unsafe { libc::mknodat(dir.as_raw_fd(), path.as_ptr(), libc::S_IFCHR, 0) }).map(|_| ())
}

/// Makes the link `name` in `dir` that points at `target`. Signal-safe.
pub(crate) fn make_link(target: &CStr, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: both strings are NUL-terminated and outlive the call; the handle is borrowed.
    check_int(unsafe { libc::symlinkat(target.as_ptr(), dir.as_raw_fd(), name.as_ptr()) }).map(|_| ())
}

/// Writes all of `bytes`. Signal-safe.
pub(crate) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length describe `bytes`, which is borrowed for the call.
        let wrote = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(wrote) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(wrote) => bytes = bytes.get(wrote..).unwrap_or_default(),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Duplicates `fd` to a number of at least `least`, close-on-exec. The caller must close the number. Signal-safe.
pub(crate) fn dup_above(fd: RawFd, least: RawFd) -> io::Result<RawFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory.
    check_int(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) })
}

/// Makes `to` a copy of `from`, and replaces what `to` was; `flags` is 0 or `O_CLOEXEC`. Signal-safe.
pub(crate) fn dup_onto(from: RawFd, to: RawFd, flags: i32) -> io::Result<()> {
    // SAFETY: dup3 takes integers and touches no memory.
    check_int(unsafe { libc::dup3(from, to, flags) }).map(|_| ())
}

/// Closes every descriptor from `first` on. Signal-safe.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range takes integers; the callers own no descriptor above `first` that they use afterwards.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(|_| ())
}

/// Takes ownership of an inherited descriptor number that the caller knows to be open and unowned.
pub(crate) fn adopt_descriptor(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes no further argument and touches no memory.
    check_int(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: `fd` is open (just asked) and, by this function's contract, owned by nothing else in this process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Borrows a descriptor by its number, which the caller knows to be open; calls fail with `EBADF` if it is not.
#[cfg(feature = "inside")]
pub(crate) fn borrow_number(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the number is not -1: the callers have it from a descriptor or a constant. Nobody closes through it.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Sets or clears close-on-exec. Signal-safe.
pub(crate) fn set_close_on_exec(fd: RawFd, on: bool) -> io::Result<()> {
    let flags = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: F_SETFD takes an integer and touches no memory.
    check_int(unsafe { libc::fcntl(fd, libc::F_SETFD, flags) }).map(|_| ())
}

/// Waits until one of `descriptors` is ready, or `patience` is over.
#[cfg(feature = "inside")]
pub(crate) fn poll<const N: usize>(
    descriptors: [Option<(BorrowedFd<'_>, crate::inside::Interest)>; N],
    patience: Option<std::time::Duration>,
) -> io::Result<[crate::inside::Readiness; N]> {
    let mut list = descriptors.map(to_pollfd);
    poll_descriptors(&mut list, patience)?;
    Ok(list.map(to_readiness))
}

/// Waits for any number of descriptors.
#[cfg(feature = "inside")]
pub(crate) fn poll_list(
    descriptors: &[Option<(BorrowedFd<'_>, crate::inside::Interest)>],
) -> io::Result<Vec<crate::inside::Readiness>> {
    let mut list: Vec<libc::pollfd> = descriptors.iter().copied().map(to_pollfd).collect();
    poll_descriptors(&mut list, None)?;
    Ok(list.into_iter().map(to_readiness).collect())
}

#[cfg(feature = "inside")]
fn to_pollfd(one: Option<(BorrowedFd<'_>, crate::inside::Interest)>) -> libc::pollfd {
    use crate::inside::Interest;
    let (fd, events) = one.map_or((-1, 0), |(fd, interest)| {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
            Interest::ReadAndWrite => libc::POLLIN | libc::POLLOUT,
        };
        (fd.as_raw_fd(), events)
    });
    libc::pollfd { fd, events, revents: 0 }
}

#[cfg(feature = "inside")]
fn to_readiness(one: libc::pollfd) -> crate::inside::Readiness {
    let over = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    crate::inside::Readiness {
        read: one.revents & (libc::POLLIN | over) != 0,
        write: one.revents & (libc::POLLOUT | over) != 0,
    }
}

#[cfg(feature = "inside")]
fn poll_descriptors(list: &mut [libc::pollfd], patience: Option<std::time::Duration>) -> io::Result<()> {
    // Rounded up: waking too early would only mean another wait.
    let milliseconds = patience.map_or(-1, |patience| {
        libc::c_int::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX)
    });
    let count = libc::nfds_t::try_from(list.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: the pointer and count describe `list`; the callers borrow the descriptors for the call.
        match check_int(unsafe { libc::poll(list.as_mut_ptr(), count, milliseconds) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Whether a descriptor has input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputState {
    /// Reading returns something at once.
    Ready,
    /// There is no input now.
    Empty,
    /// The other side is gone and left no input.
    Closed,
}

/// Whether reading would not block, now or within `patience`; also because the other side is gone.
pub(crate) fn is_readable(fd: BorrowedFd<'_>, patience: std::time::Duration) -> io::Result<bool> {
    Ok(poll_input(fd, patience)? != InputState::Empty)
}

/// Whether there is input, now or within `patience`.
pub(crate) fn poll_input(fd: BorrowedFd<'_>, patience: std::time::Duration) -> io::Result<InputState> {
    let milliseconds = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    let mut one = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the pointer and count describe `one`; the descriptor is borrowed for the call.
    let ready = check_int(unsafe { libc::poll(&raw mut one, 1, milliseconds) })? > 0;
    Ok(match one.revents & libc::POLLIN {
        _ if !ready => InputState::Empty,
        0 => InputState::Closed,
        _ => InputState::Ready,
    })
}

/// How often a file in memory is sealed again that the kernel reports as in use, and the pause between two tries.
#[cfg(feature = "host")]
const MAX_SEAL_TRIES: u32 = 40;
#[cfg(feature = "host")]
const SEAL_RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);

/// Makes a sealed, anonymous, executable file that holds `bytes`.
#[cfg(feature = "host")]
pub(crate) fn sealed_program(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    const EXEC: u32 = 0x10; // MFD_EXEC: asked for explicitly since Linux 6.3 warns without
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    let mut fd = unsafe { libc::memfd_create(name.as_ptr(), flags | EXEC) };
    if fd == -1 {
        // SAFETY: as above; older kernels refuse the flag.
        fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    }
    let fd = check_int(fd)?;
    // SAFETY: the kernel just made `fd` and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    write_all(std::os::fd::AsFd::as_fd(&fd), bytes)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    for _ in 0..MAX_SEAL_TRIES {
        // SAFETY: F_ADD_SEALS takes an integer and touches no memory.
        match check_int(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }) {
            // The kernel uses its pages at the moment: nothing writes to them.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(SEAL_RETRY_INTERVAL),
            sealed => return sealed.map(|_| fd),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// The space and the inodes of the file system behind a handle.
#[cfg(feature = "host")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// The size of the file system in bytes.
    pub bytes: u64,
    /// The bytes that are still free.
    pub bytes_free: u64,
    /// The number of all inodes.
    pub inodes: u64,
    /// The inodes that are still free.
    pub inodes_free: u64,
}

/// Reads how full the file system behind `fd` is.
#[cfg(feature = "host")]
pub(crate) fn disk_space(fd: BorrowedFd<'_>) -> io::Result<DiskSpace> {
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `answer` is writable memory of the size that fstatfs fills.
    check_int(unsafe { libc::fstatfs(fd.as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: fstatfs succeeded, and an all-zero statfs is valid anyway.
    let answer = unsafe { answer.assume_init() };
    let block = u64::try_from(answer.f_bsize).unwrap_or(0);
    Ok(DiskSpace {
        bytes: answer.f_blocks.saturating_mul(block),
        bytes_free: answer.f_bavail.saturating_mul(block),
        inodes: answer.f_files,
        inodes_free: answer.f_ffree,
    })
}
