//! Landlock as a second restriction in addition to the mounts: it holds even where a mount was forgotten.
#![cfg_attr(
    not(feature = "inside"),
    expect(dead_code, reason = "the host only says what a place is for")
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use crate::sys::{fd, fence};

/// What Landlock allows for a path in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockAccess {
    /// Reading files, listing folders and starting programs.
    Programs,
    /// Listing folders and nothing else.
    List,
    /// Reading files and listing folders.
    Read,
    /// Everything a program does with its own files, but no devices.
    Write,
    /// An open device: reading, writing and its own requests.
    Device,
}

mod right {
    pub(super) const EXECUTE: u64 = 1;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    pub(super) const MAKE_CHAR: u64 = 1 << 6;
    pub(super) const MAKE_BLOCK: u64 = 1 << 11;
    pub(super) const IOCTL_DEV: u64 = 1 << 15;
}

/// Every file right that Landlock `version` knows.
fn all_rights(version: u32) -> u64 {
    let count = match version {
        0 | 1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << count) - 1
}

impl LandlockAccess {
    fn rights(self, version: u32) -> u64 {
        let read = right::READ_FILE | right::READ_DIR;
        let wanted = match self {
            LandlockAccess::Programs => read | right::EXECUTE,
            LandlockAccess::List => right::READ_DIR,
            LandlockAccess::Read => read,
            LandlockAccess::Write => !(right::MAKE_CHAR | right::MAKE_BLOCK | right::IOCTL_DEV),
            LandlockAccess::Device => right::READ_FILE | right::WRITE_FILE | right::IOCTL_DEV,
        };
        wanted & all_rights(version)
    }
}

/// Confines this thread to `places`; a place that does not exist is left out. Signal-safe. Returns the Landlock version in
/// force.
pub(crate) fn restrict_to_places(places: &[(impl AsRef<CStr>, LandlockAccess)]) -> io::Result<u32> {
    const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;
    let version = fence::landlock_version()?;
    let scoped = if version >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let handled = fence::HandledRights {
        files: all_rights(version),
        net: 0,
        scoped,
    };
    let rules = fence::landlock_rules(handled, version)?;
    for (path, purpose) in places {
        let place = match fd::open_at(None, path.as_ref(), libc::O_PATH, 0) {
            Ok(place) => place,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            Err(error) => return Err(error),
        };
        allow_place(&rules, &place, purpose.rights(version))?;
    }
    fence::landlock_restrict(rules.as_fd())?;
    Ok(version)
}

/// Allows `rights` for a place. The kernel refuses rights for folders on a file: then only those for files are requested.
fn allow_place(rules: &impl AsFd, place: &impl AsFd, rights: u64) -> io::Result<()> {
    const FOR_FILES: u64 = right::EXECUTE | right::WRITE_FILE | right::READ_FILE | (1 << 14) | right::IOCTL_DEV;
    match fence::landlock_allow(rules.as_fd(), place.as_fd(), rights) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            fence::landlock_allow(rules.as_fd(), place.as_fd(), rights & FOR_FILES)
        }
        other => other,
    }
}
