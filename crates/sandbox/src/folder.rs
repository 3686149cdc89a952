//! Measures, empties and removes folders that programs wrote to. The host follows no link and touches nothing outside, and
//! no depth, number or name of entries can harm it.

use std::ffi::{CStr, CString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::tree::{self, FolderUsage};

/// How many nested folders are open at the same time.
const MAX_OPEN_DEPTH: u32 = 32;
/// How many other names are tried when a name is taken.
const MAX_NAME_ATTEMPTS: u32 = 64;

/// What a folder holds. Counting stops above `most`, and a folder that cannot be read counts as more than that. A missing
/// folder holds nothing.
pub fn measure(folder: &Path, most: FolderUsage) -> io::Result<FolderUsage> {
    match open_owned(CWD, folder) {
        Ok(handle) => tree::folder_usage(handle.as_fd(), most),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FolderUsage::default()),
        Err(error) => Err(error),
    }
}

/// Whether a folder can be recreated from names and contents alone: it holds only plain files, none of them executable or
/// hard-linked, and no empty folder.
pub fn is_plain(folder: &Path) -> io::Result<bool> {
    match open_owned(CWD, folder) {
        Ok(handle) => tree::is_plain(handle.as_fd()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Removes the content of a folder, at most as many entries as `budget` has left, and lowers `budget` by their number.
/// Returns whether the folder is empty now.
pub fn empty(folder: &Path, budget: &mut u64) -> io::Result<bool> {
    let handle = match open_owned(CWD, folder) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let device = fstat(&handle)?.st_dev;
    let mut done = FolderCleaner {
        root: handle.as_fd(),
        device,
        budget,
    };
    done.empty_all()
}

/// As [`empty`], and then removes the folder itself. Returns whether it is gone.
pub fn remove(folder: &Path, budget: &mut u64) -> io::Result<bool> {
    if !empty(folder, budget)? {
        return Ok(false);
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Opens a folder that is not a link, and makes it readable and writable for its owner where a program removed that.
fn open_owned(above: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&above, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            make_owner_writable(openat(&above, name, flags | OFlags::PATH, Mode::empty())?.as_fd())?;
            Ok(openat(&above, name, flags | OFlags::RDONLY, Mode::empty())?)
        }
        other => Ok(other?),
    }
}

/// Uses the handle, not the name: something else may have that name by now.
fn make_owner_writable(handle: BorrowedFd<'_>) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Empties a folder and never goes deeper than [`MAX_OPEN_DEPTH`] below it: deeper folders are moved up first.
struct FolderCleaner<'a> {
    root: BorrowedFd<'a>,
    device: u64,
    budget: &'a mut u64,
}

impl FolderCleaner<'_> {
    fn empty_all(&mut self) -> io::Result<bool> {
        loop {
            let mut found = false;
            for entry in Dir::read_from(self.root)? {
                let entry = entry?;
                let name = entry.file_name();
                if is_dot_entry(name) {
                    continue;
                }
                found = true;
                if !self.spend_entry() {
                    return Ok(false);
                }
                if !remove_entry(self.root, name)? && !self.flatten(self.root, name, 1)? {
                    return Ok(false);
                }
            }
            if !found {
                return Ok(true);
            }
        }
    }

    fn spend_entry(&mut self) -> bool {
        let left = self.budget.checked_sub(1);
        *self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// Removes a folder with its files; folders that lie too deep move to the top, where the cleaner meets them again.
    fn flatten(&mut self, above: BorrowedFd<'_>, name: &CStr, depth: u32) -> io::Result<bool> {
        let folder = open_owned(above, name)?;
        if fstat(&folder)?.st_dev != self.device {
            // Another file system is mounted here: it is never emptied.
            return Err(io::Error::new(
                io::ErrorKind::CrossesDevices,
                "another file system is mounted in it",
            ));
        }
        make_owner_writable(folder.as_fd())?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let below = entry.file_name();
            if is_dot_entry(below) {
                continue;
            }
            if !self.spend_entry() {
                return Ok(false);
            }
            if remove_entry(folder.as_fd(), below)? {
                continue;
            }
            if depth >= MAX_OPEN_DEPTH {
                self.lift_to_root(folder.as_fd(), below)?;
            } else if !self.flatten(folder.as_fd(), below, depth + 1)? {
                return Ok(false);
            }
        }
        // The cleaner meets a folder again that is still not empty.
        match unlinkat(above, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn lift_to_root(&self, from: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat(from, name, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let found = fstat(&folder)?;
        // Moving a folder needs write permission in it.
        make_owner_writable(folder.as_fd())?;
        for attempt in 0..MAX_NAME_ATTEMPTS {
            let to = CString::new(format!(".gone-{}-{attempt}", found.st_ino))?;
            match renameat_with(from, name, self.root, &to, RenameFlags::NOREPLACE) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }
}

/// Removes an empty folder or an entry that is not a folder; returns whether it is gone.
fn remove_entry(above: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let kind = match statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => FileType::from_raw_mode(found.st_mode),
        Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let how = if kind == FileType::Directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match unlinkat(above, name, how) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) if kind == FileType::Directory => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_dot_entry(name: &CStr) -> bool {
    name == c"." || name == c".."
}

#[cfg(test)]
mod tests;
