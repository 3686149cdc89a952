//! The steps by which a copy of the template becomes the first process of a jail: the host compiles them from a plan and
//! sends them as bytes, and the copy carries them out. Nothing here touches the system.
#![cfg_attr(
    not(feature = "host"),
    expect(unreachable_pub, reason = "only the host says these words to others")
)]

use std::borrow::Cow;
use std::ffi::CStr;

use crate::landlock::LandlockAccess;

/// A path or option. On the host it is owned; the copy of the template borrows it from the received bytes and allocates
/// nothing.
pub(crate) type StepName<'a> = Cow<'a, CStr>;

/// The identity of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIds {
    /// Its user and group number inside.
    pub inside: u32,
    /// The host's number for that user: never 0.
    pub user: u32,
    /// The host's number for that group.
    pub group: u32,
}

/// The kind of a hidden entry of `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenKind {
    Folder,
    /// Anything that is not a folder.
    File,
}

/// Limits of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// How many descriptors a process may have open.
    pub open_files: u64,
    /// Processes and threads of the jail's user, where control groups cannot count them; `None`: they do.
    pub processes: Option<u64>,
    /// The size of one file, in bytes.
    pub file_bytes: u64,
    /// Processors it may run on at the same time, where control groups cannot limit them; `None`: they do.
    pub processors: Option<usize>,
}

/// One step of the child that builds its root. Paths are relative to the root under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BuildStep<'a> {
    Folder {
        path: StepName<'a>,
    },
    Bind {
        source: usize,
        to: StepName<'a>,
        attributes: u64,
    },
    Touch {
        path: StepName<'a>,
    },
    /// A device of the host, by its path there.
    Device {
        from: StepName<'a>,
        to: StepName<'a>,
    },
    Memory {
        to: StepName<'a>,
        options: StepName<'a>,
        flags: libc::c_ulong,
    },
    Link {
        target: StepName<'a>,
        to: StepName<'a>,
    },
    Write {
        to: StepName<'a>,
        content: Cow<'a, [u8]>,
    },
    Proc,
    ReadOnlyAgain {
        path: StepName<'a>,
    },
    /// A folder of the host seen through a layer that holds a whiteout for every hidden name.
    Layer {
        source: usize,
        to: StepName<'a>,
        /// The mount options of the layer's file system.
        options: StepName<'a>,
        /// The folders of the layer, parents first.
        folders: Vec<StepName<'a>>,
        /// The names that are hidden.
        hidden: Vec<StepName<'a>>,
    },
    /// An entry of the jail's own `/proc`, which this kernel may not have.
    CoverOfProc {
        path: StepName<'a>,
        kind: HiddenKind,
    },
}

/// An empty folder in the root, shown in place of every hidden folder of `/proc`.
pub(crate) const EMPTY_FOLDER: &CStr = c"dev/.hidden";

/// All steps of one jail, with the child's identity and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfinementSteps<'a> {
    /// Its user and group number inside.
    pub(crate) inside: u32,
    pub(crate) drop_groups: bool,
    /// Paths of the host, opened before the copy gives up the caller's identity.
    pub(crate) sources: Vec<StepName<'a>>,
    pub(crate) root_options: StepName<'a>,
    pub(crate) build: Vec<BuildStep<'a>>,
    pub(crate) uses: Vec<(StepName<'a>, LandlockAccess)>,
    pub(crate) handles: Vec<StepName<'a>>,
    pub(crate) limits: ProcessLimits,
}
