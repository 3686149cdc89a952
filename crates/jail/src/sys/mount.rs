//! Mounts. Everything here is signal-safe and works on handles, on the current folder, or on paths that this crate made.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_int};

const OPEN_TREE_CLONE: libc::c_uint = 1;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;

/// Mount attributes, as `mount_setattr` wants them.
pub(crate) mod attr {
    pub(crate) const RDONLY: u64 = 1;
    pub(crate) const NOSUID: u64 = 2;
    pub(crate) const NODEV: u64 = 4;
    pub(crate) const NOEXEC: u64 = 8;
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Keeps every later mount inside this namespace.
pub(crate) fn make_private() -> io::Result<()> {
    // SAFETY: a propagation change reads only the target path, which is a static NUL-terminated string.
    let done = unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    };
    check_int(done).map(|_| ())
}

/// Mounts a new file system of `kind` at `target` with its own options.
pub(crate) fn mount_new(kind: &CStr, target: &CStr, flags: libc::c_ulong, options: &CStr) -> io::Result<()> {
    // SAFETY: all strings are NUL-terminated and outlive the call; tmpfs, proc and overlay read `options` as such a string.
    let done = unsafe {
        libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    check_int(done).map(|_| ())
}

/// Mounts the path `source` at `target` in addition, with the attributes it has there. Both are paths that this crate made:
/// links are followed.
pub(crate) fn bind_path(source: &CStr, target: &CStr) -> io::Result<()> {
    let (kind, data) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both paths are NUL-terminated and outlive the call; a bind reads neither kind nor data.
    check_int(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, libc::MS_BIND, data) }).map(|_| ())
}

/// Makes a detached copy of what is mounted at `source` and below, sets `attributes` on every part, and mounts it on the
/// handle `target`.
pub(crate) fn bind(source: BorrowedFd<'_>, target: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | libc::AT_EMPTY_PATH.cast_unsigned() | libc::O_CLOEXEC.cast_unsigned();
    // SAFETY: the path is a static empty string; the handle is borrowed for the call.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags) };
    let tree = i32::try_from(check(tree)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    let tree = unsafe { OwnedFd::from_raw_fd(tree) };
    if attributes != 0 {
        set_attributes(Some(&tree), c"", attributes, AT_RECURSIVE)?;
    }
    // SAFETY: both paths are static empty strings; the handles are borrowed.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    };
    check(moved).map(|_| ())
}

/// Sets attributes such as read-only on the mount at `path` alone.
pub(crate) fn restrict_mount(path: &CStr, attributes: u64) -> io::Result<()> {
    set_attributes(None, path, attributes, 0)
}

fn set_attributes(at: Option<&OwnedFd>, path: &CStr, set: u64, depth: libc::c_uint) -> io::Result<()> {
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let (dir, flags) = at.map_or((libc::AT_FDCWD, depth), |fd| {
        (fd.as_raw_fd(), depth | libc::AT_EMPTY_PATH.cast_unsigned())
    });
    // SAFETY: `path` and `attributes` outlive the call, and the size given is that of the structure.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    check(done).map(|_| ())
}

/// Makes the current folder the root and detaches the old one.
pub(crate) fn pivot_to_current() -> io::Result<()> {
    // SAFETY: both paths are static NUL-terminated strings.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    // SAFETY: the path is a static NUL-terminated string.
    check_int(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) })?;
    change_folder(c"/")
}

/// Makes the folder behind the handle the current folder.
pub(crate) fn enter_folder(folder: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fchdir takes an integer and touches no memory; the handle is borrowed.
    check_int(unsafe { libc::fchdir(folder.as_raw_fd()) }).map(|_| ())
}

/// Changes the current folder.
pub(crate) fn change_folder(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    check_int(unsafe { libc::chdir(path.as_ptr()) }).map(|_| ())
}
