//! What a copy of the template does to become the first process of a jail, step by step: made by the host from a plan,
//! sent as bytes, carried out over there. Nothing here touches the system.

use std::ffi::{CStr, CString};

use crate::landlock::Use;

/// Who the child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// Its user and group number inside.
    pub inside: u32,
    /// The host's number for that user: never 0.
    pub user: u32,
    /// The host's number for that group.
    pub group: u32,
}

/// What a hidden thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenKind {
    /// A folder.
    Folder,
    /// Anything else.
    File,
}

/// Limits of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open descriptors.
    pub open_files: u64,
    /// Processes and threads of the jail's user, where control groups cannot count them; `None`: they do.
    pub processes: Option<u64>,
    /// Size of one file.
    pub file_bytes: u64,
    /// Processors it may run on at the same time, where control groups cannot ration them.
    pub processors: Option<usize>,
}

/// One thing the child does to build its root. Paths are relative to the root that is being built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Folder {
        path: CString,
    },
    Bind {
        source: usize,
        to: CString,
        attributes: u64,
    },
    Touch {
        path: CString,
    },
    Memory {
        to: CString,
        options: CString,
        flags: libc::c_ulong,
    },
    Link {
        target: CString,
        to: CString,
    },
    Write {
        to: CString,
        content: Vec<u8>,
    },
    Proc,
    ReadOnlyAgain {
        path: CString,
    },
    Cover {
        path: CString,
        kind: HiddenKind,
        missing: Missing,
    },
}

/// What it means when a thing to cover is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// This kernel does not have it.
    Fine,
    /// It was there when the plan was made: somebody is changing the folder under us.
    Fails,
}

/// An empty folder in the root, shown wherever a folder is hidden.
pub(crate) const EMPTY: &CStr = c"dev/.hidden";

/// The whole way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Its user and group number inside.
    pub(crate) inside: u32,
    pub(crate) drop_groups: bool,
    /// Places of the host, opened before the copy gives up the caller's identity.
    pub(crate) sources: Vec<CString>,
    pub(crate) root_options: CString,
    pub(crate) build: Vec<Step>,
    pub(crate) uses: Vec<(CString, Use)>,
    pub(crate) handles: Vec<CString>,
    pub(crate) limits: Limits,
}
