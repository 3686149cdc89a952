//! What a jail is to be, as data: nothing here touches the system.

use std::path::PathBuf;

use crate::landlock::Use;
pub use crate::steps::{Ids, Limits};

/// A whole jail. What the plan does not give, the child does not have.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who the child is, inside and outside.
    pub ids: Ids,
    /// What is in its root, in the order it is put there.
    pub places: Vec<Place>,
    /// What Landlock allows, as paths inside; everything else is refused a second time.
    pub uses: Vec<(String, Use)>,
    /// Limits that hold for each process alone.
    pub limits: Limits,
    /// The folders, as paths inside, whose handles the host wants: to see how full they are, to bring files in and out.
    pub handles: Vec<String>,
}

/// Whether a place can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only read.
    Read,
    /// Read and written.
    Write,
}

/// Whether programs can be started from a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// They can.
    Run,
    /// They cannot.
    Never,
}

/// Something in the jail's root. Paths inside are absolute and plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder or file of the host, with everything mounted below it.
    Host {
        /// Where it is on the host.
        from: PathBuf,
        /// Where it is inside.
        to: String,
        /// Whether it can be written.
        access: Access,
    },
    /// Memory that is a file system of its own.
    Memory {
        /// Where it is inside.
        to: String,

        /// The most it holds.
        bytes: u64,

        /// The most files it holds.
        inodes: u64,

        /// Whether programs start from it.
        programs: Programs,
    },
    /// A link.
    Link {
        /// What it says.
        target: String,
        /// Where it is inside.
        to: String,
    },
    /// A small file made for the jail.
    File {
        /// Where it is inside.
        to: String,
        /// What is in it.
        content: Vec<u8>,
    },
    /// `/proc` of the jail, without what tells of or changes the host.
    Proc,
    /// A harmless device of the host, such as `null`.
    Device {
        /// Its name.
        name: String,
    },
    /// A folder of the host, read-only, without some of the names in it. What is hidden is a name: whatever the host puts
    /// there while the jail stands is not seen either. Nothing may be mounted below the folder.
    Shown {
        /// Where it is on the host.
        from: PathBuf,
        /// Where it is inside.
        to: String,
        /// The paths below it that are not there.
        hidden: Vec<String>,
    },
}
