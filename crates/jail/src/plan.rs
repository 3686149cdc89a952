//! The description of a jail, as data: nothing here touches the system.

use std::path::PathBuf;

use crate::landlock::LandlockAccess;
pub use crate::steps::{ProcessLimits, UserIds};

/// A whole jail. The child has nothing that the plan does not give it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The user of the child, inside and outside.
    pub ids: UserIds,
    /// The entries of its root, in the order in which they are made.
    pub entries: Vec<RootEntry>,
    /// What Landlock allows, as paths inside; everything else is refused a second time.
    pub landlock_rules: Vec<(String, LandlockAccess)>,
    /// Limits that hold for each process alone.
    pub limits: ProcessLimits,
    /// The folders, as paths inside, whose handles the host wants: to measure them, and to bring files in and out.
    pub handles: Vec<String>,
}

/// Whether a mounted entry is writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountAccess {
    /// Programs can only read it.
    Read,
    /// Programs can read and write it.
    Write,
}

/// Whether programs can be started from a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecPolicy {
    /// Files in it can be executed.
    Allowed,
    /// Files in it cannot be executed.
    Denied,
}

/// An entry of the jail's root. Paths inside are absolute and plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootEntry {
    /// A folder or file of the host, with everything mounted below it.
    Host {
        /// The path on the host.
        from: PathBuf,
        /// The path inside the jail.
        to: String,
        /// Whether the entry is writable.
        access: MountAccess,
    },
    /// A file system in memory.
    Memory {
        /// The path inside the jail.
        to: String,

        /// The size of the file system in bytes.
        bytes: u64,

        /// The number of files it may hold.
        inodes: u64,

        /// Whether programs can be started from it.
        programs: ExecPolicy,
    },
    /// A symbolic link in the root.
    Link {
        /// The path that the link points at.
        target: String,
        /// The path of the link inside the jail.
        to: String,
    },
    /// A small file made for the jail.
    File {
        /// The path inside the jail.
        to: String,
        /// The content of the file.
        content: Vec<u8>,
    },
    /// The jail's own `/proc`, without what reveals or changes the host.
    Proc,
    /// A harmless device of the host, such as `null`.
    Device {
        /// The name of the device below `/dev`.
        name: String,
    },
    /// A folder of the host, read-only, without some of the names in it. A hidden name stays hidden: whatever the host puts
    /// there while the jail runs is not visible either. Nothing may be mounted below the folder.
    FilteredHost {
        /// The path on the host.
        from: PathBuf,
        /// The path inside the jail.
        to: String,
        /// The paths below the folder that are hidden.
        hidden: Vec<String>,
    },
}
