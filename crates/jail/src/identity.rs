//! The id maps of a process in a new user namespace, written by the process that made it.

use std::fs;
use std::io;

/// A user or group number inside the namespace, and the number outside that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdMapping {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
}

/// Whether the writer may map numbers other than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdMapWriter {
    Root,
    Ordinary,
}

impl IdMapWriter {
    /// The rights of this process.
    pub(crate) fn current() -> IdMapWriter {
        if crate::sys::process::effective_ids().0 == 0 {
            IdMapWriter::Root
        } else {
            IdMapWriter::Ordinary
        }
    }
}

/// Maps one user and one group for `pid`.
pub(crate) fn write_id_maps(pid: i32, user: IdMapping, group: IdMapping, writer: IdMapWriter) -> io::Result<()> {
    let map = |same: IdMapping| format!("{} {} 1", same.inside, same.outside);
    if writer == IdMapWriter::Ordinary {
        // The kernel demands this before an ordinary user may write a group map.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{pid}/gid_map"), map(group))?;
    fs::write(format!("/proc/{pid}/uid_map"), map(user))
}
