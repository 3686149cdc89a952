//! What a copy of the template does to become the first process of a jail, step by step: made by the host from a plan,
//! sent as bytes, carried out over there. Nothing here touches the system.
#![cfg_attr(
    not(feature = "host"),
    expect(unreachable_pub, reason = "only the host says these words to others")
)]

use std::borrow::Cow;
use std::ffi::CStr;

use crate::landlock::Use;

/// A path or option. The host owns it; the copy of the template finds it in the bytes that came, and allocates nothing.
pub(crate) type Name<'a> = Cow<'a, CStr>;

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

/// What a hidden thing of `/proc` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenKind {
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
pub(crate) enum Step<'a> {
    Folder {
        path: Name<'a>,
    },
    Bind {
        source: usize,
        to: Name<'a>,
        attributes: u64,
    },
    Touch {
        path: Name<'a>,
    },
    /// A device of the host, by its path there.
    Device {
        from: Name<'a>,
        to: Name<'a>,
    },
    Memory {
        to: Name<'a>,
        options: Name<'a>,
        flags: libc::c_ulong,
    },
    Link {
        target: Name<'a>,
        to: Name<'a>,
    },
    Write {
        to: Name<'a>,
        content: Cow<'a, [u8]>,
    },
    Proc,
    ReadOnlyAgain {
        path: Name<'a>,
    },
    /// A folder of the host seen through a layer that holds a whiteout for every hidden name.
    Layer {
        source: usize,
        to: Name<'a>,
        /// What the file system of the layer is made with.
        options: Name<'a>,
        /// The folders of the layer, those above others first.
        folders: Vec<Name<'a>>,
        /// The names that are not there.
        hidden: Vec<Name<'a>>,
    },
    /// Something of our own `/proc`, which this kernel may not have.
    CoverOfProc {
        path: Name<'a>,
        kind: HiddenKind,
    },
}

/// An empty folder in the root, shown wherever a folder of `/proc` is hidden.
pub(crate) const EMPTY: &CStr = c"dev/.hidden";

/// The whole way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps<'a> {
    /// Its user and group number inside.
    pub(crate) inside: u32,
    pub(crate) drop_groups: bool,
    /// Places of the host, opened before the copy gives up the caller's identity.
    pub(crate) sources: Vec<Name<'a>>,
    pub(crate) root_options: Name<'a>,
    pub(crate) build: Vec<Step<'a>>,
    pub(crate) uses: Vec<(Name<'a>, Use)>,
    pub(crate) handles: Vec<Name<'a>>,
    pub(crate) limits: Limits,
}
