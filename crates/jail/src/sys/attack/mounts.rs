//! Mounts, roots, handles and device nodes.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{owned_descriptor, raw_call};
use crate::sys::check_int;

const CURRENT_FOLDER: usize = (libc::AT_FDCWD as isize).cast_unsigned();

fn path_text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A file system that an attempt mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedFilesystem {
    /// The kind of the file system, such as `tmpfs`.
    pub kind: String,
    /// The mount options of the file system.
    pub options: String,
}

/// Mounts a new file system at `at`.
pub fn mount_new(filesystem: &MountedFilesystem, at: &Path) -> io::Result<()> {
    let (kind, options, at) = (
        CString::new(&*filesystem.kind)?,
        CString::new(&*filesystem.options)?,
        path_text(at)?,
    );
    let kind = kind.as_ptr() as usize;
    let arguments = [kind, at.as_ptr() as usize, kind, 0, options.as_ptr() as usize, 0];
    // SAFETY: all four strings are NUL-terminated and live until the end of this function.
    unsafe { raw_call(libc::SYS_mount, arguments) }.map(drop)
}

/// Mounts `from` at `at` in addition.
pub fn mount_bind(from: &Path, at: &Path) -> io::Result<()> {
    let (from, at) = (path_text(from)?, path_text(at)?);
    let flags = usize::try_from(libc::MS_BIND).unwrap_or(0);
    // SAFETY: both strings are NUL-terminated and outlive the call; a bind reads no kind and no options.
    unsafe {
        raw_call(
            libc::SYS_mount,
            [from.as_ptr() as usize, at.as_ptr() as usize, 0, flags, 0, 0],
        )
    }
    .map(drop)
}

/// Makes the mount at `at` writable.
pub fn remount(at: &Path) -> io::Result<()> {
    let at = path_text(at)?;
    let flags = usize::try_from(libc::MS_REMOUNT | libc::MS_BIND).unwrap_or(0);
    // SAFETY: the string is NUL-terminated and outlives the call; this remount reads nothing else.
    unsafe { raw_call(libc::SYS_mount, [0, at.as_ptr() as usize, 0, flags, 0, 0]) }.map(drop)
}

/// Removes the mount at `at`.
pub fn unmount(at: &Path) -> io::Result<()> {
    let at = path_text(at)?;
    let flags = libc::MNT_DETACH.cast_unsigned() as usize;
    // SAFETY: the string is NUL-terminated and outlives the call.
    unsafe { raw_call(libc::SYS_umount2, [at.as_ptr() as usize, flags, 0, 0, 0, 0]) }.map(drop)
}

/// Makes `new` the root of this mount namespace.
pub fn pivot_root(new: &Path) -> io::Result<()> {
    let new = path_text(new)?;
    let address = new.as_ptr() as usize;
    // SAFETY: the string, used for both arguments, is NUL-terminated and outlives the call.
    unsafe { raw_call(libc::SYS_pivot_root, [address, address, 0, 0, 0, 0]) }.map(drop)
}

/// Makes `new` the root of this process.
pub fn change_root(new: &Path) -> io::Result<()> {
    let new = path_text(new)?;
    // SAFETY: the string is NUL-terminated and outlives the call.
    unsafe { raw_call(libc::SYS_chroot, [new.as_ptr() as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Creates a new file system that is mounted nowhere.
pub fn open_filesystem(kind: &str) -> io::Result<()> {
    let kind = CString::new(kind)?;
    // SAFETY: the string is NUL-terminated and outlives the call.
    owned_descriptor(unsafe { raw_call(libc::SYS_fsopen, [kind.as_ptr() as usize, 1, 0, 0, 0, 0]) }?).map(drop)
}

/// Makes a copy of the mount at `at` that is mounted nowhere.
pub fn open_tree(at: &Path) -> io::Result<OwnedFd> {
    const CLONE: usize = 1;
    let at = path_text(at)?;
    // SAFETY: the string is NUL-terminated and outlives the call.
    owned_descriptor(unsafe {
        raw_call(
            libc::SYS_open_tree,
            [CURRENT_FOLDER, at.as_ptr() as usize, CLONE, 0, 0, 0],
        )
    }?)
}

/// Mounts a copy of the mount at `from` at `to`.
pub fn move_tree(from: &Path, to: &Path) -> io::Result<()> {
    const EMPTY_PATH: usize = 4;
    let tree = open_tree(from);
    let number = tree.as_ref().map_or(-1, AsRawFd::as_raw_fd).cast_unsigned() as usize;
    let to = path_text(to)?;
    let arguments = [
        number,
        c"".as_ptr() as usize,
        CURRENT_FOLDER,
        to.as_ptr() as usize,
        EMPTY_PATH,
        0,
    ];
    // SAFETY: both strings are NUL-terminated and outlive the call.
    unsafe { raw_call(libc::SYS_move_mount, arguments) }.map(drop)
}

/// Clears the read-only attribute of the mount at `at`.
pub fn clear_mount_attributes(at: &Path) -> io::Result<()> {
    const READ_ONLY: u64 = 1;
    let at = path_text(at)?;
    let attributes = [0u64, READ_ONLY, 0, 0];
    let (address, size) = (attributes.as_ptr() as usize, size_of_val(&attributes));
    // SAFETY: `attributes` is a mount_attr of `size` bytes; it and the path outlive the call.
    unsafe {
        raw_call(
            libc::SYS_mount_setattr,
            [CURRENT_FOLDER, at.as_ptr() as usize, 0, address, size, 0],
        )
    }
    .map(drop)
}

/// A file handle as the kernel writes it: length, kind, bytes.
type FileHandle = [u32; 34];

/// Asks for the handle of `path`, by which it could be opened from anywhere.
pub fn file_handle(path: &Path) -> io::Result<FileHandle> {
    let path = path_text(path)?;
    let mut handle: FileHandle = [0; 34];
    handle[0] = 128;
    let mut mount = 0i32;
    let (handle_at, mount_at) = (handle.as_mut_ptr() as usize, (&raw mut mount) as usize);
    // SAFETY: `handle` says it has room for 128 bytes after its header of 8, which it has; `mount` is an integer to fill.
    unsafe {
        raw_call(
            libc::SYS_name_to_handle_at,
            [CURRENT_FOLDER, path.as_ptr() as usize, handle_at, mount_at, 0, 0],
        )
    }?;
    Ok(handle)
}

/// Opens `path` by its handle, or, where handles are not available, the root of its file system by a guessed one.
pub fn open_by_handle(path: &Path) -> io::Result<()> {
    let mut guessed: FileHandle = [0; 34];
    // Eight bytes of kind 1: inode 2, generation 0.
    guessed[..3].copy_from_slice(&[8, 1, 2]);
    let handle = file_handle(path).unwrap_or(guessed);
    let place = std::fs::File::open(path)?;
    let number = place.as_raw_fd().cast_unsigned() as usize;
    // Only folders: for those the kernel demands the least.
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC).cast_unsigned() as usize;
    // SAFETY: `handle` is as long as it says and outlives the call; the descriptor is borrowed for it.
    owned_descriptor(unsafe {
        raw_call(
            libc::SYS_open_by_handle_at,
            [number, handle.as_ptr() as usize, flags, 0, 0, 0],
        )
    }?)
    .map(drop)
}

/// Makes a device node at `at`: the kind of `null` (`block`: false) or of a loop device.
pub fn make_device(at: &Path, block: bool) -> io::Result<()> {
    let at = path_text(at)?;
    let (kind, device) = if block {
        (libc::S_IFBLK, libc::makedev(7, 0))
    } else {
        (libc::S_IFCHR, libc::makedev(1, 3))
    };
    // SAFETY: the string is NUL-terminated and outlives the call.
    check_int(unsafe { libc::mknodat(libc::AT_FDCWD, at.as_ptr(), kind | 0o666, device) }).map(|_| ())
}
