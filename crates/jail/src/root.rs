//! Builds the root of a jail. What a program left in a kept place, or the host has in a folder, may be links: every path is
//! resolved beneath the new root and through no link, and every mount is attached to a handle.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::steps::{BuildStep, EMPTY_FOLDER, HiddenKind, StepName};
use crate::sys::fd;
use crate::sys::mount::{self, attr};

/// Shown in place of every hidden file of `/proc`.
const EMPTY_FILE: &CStr = c"/dev/null";

/// A root under construction: a handle of its topmost folder, which is also the current folder.
#[derive(Debug)]
pub(crate) struct RootBuilder(OwnedFd);

impl RootBuilder {
    /// Mounts an empty root at `/tmp` until it is entered; descriptors that were opened below `/tmp` stay open.
    pub(crate) fn mount_empty(options: &CStr) -> io::Result<RootBuilder> {
        mount::make_private()?;
        mount::mount_new(c"tmpfs", c"/tmp", libc::MS_NOSUID | libc::MS_NODEV, options)?;
        mount::change_folder(c"/tmp")?;
        let root = fd::open_at(None, c".", libc::O_PATH | libc::O_DIRECTORY, 0)?;
        Ok(RootBuilder(root))
    }

    /// Opens `path`; a link anywhere on the way is an error.
    pub(crate) fn open(&self, path: &CStr, flags: i32) -> io::Result<OwnedFd> {
        fd::open_beneath(self.0.as_fd(), path, flags, 0)
    }

    /// A handle on a path that something can be mounted on.
    fn open_mount_target(&self, path: &CStr) -> io::Result<OwnedFd> {
        self.open(path, libc::O_PATH)
    }

    pub(crate) fn apply_step(&self, step: &BuildStep<'_>, sources: &[OwnedFd]) -> io::Result<()> {
        match step {
            BuildStep::Folder { path } => self.make_in_parent(path, |dir, name| fd::make_folder(dir, name, 0o755)),
            BuildStep::Touch { path } => self.make_in_parent(path, |dir, name| fd::make_file(dir, name, 0o644)),
            BuildStep::Device { from, to } => {
                self.make_in_parent(to, |dir, name| fd::make_file(dir, name, 0o644))?;
                // Everything in `dev` is made by these steps, from the root down.
                mount::bind_path(from, to)?;
                // Not `NODEV`: a device that cannot be opened is useless.
                mount::restrict_mount(to, attr::NOSUID | attr::NOEXEC)
            }
            BuildStep::Bind { source, to, attributes } => mount::bind(
                opened_source(sources, *source)?,
                self.open_mount_target(to)?.as_fd(),
                *attributes,
            ),
            BuildStep::Memory { to, options, flags } => self.mount(to, (c"tmpfs", options), *flags),
            BuildStep::Link { target, to } => self.make_in_parent(to, |dir, name| fd::make_link(target, dir, name)),
            BuildStep::Write { to, content } => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW;
                let file = fd::open_beneath(self.0.as_fd(), to, flags, 0o644)?;
                fd::write_all(file.as_fd(), content)
            }
            BuildStep::Proc => {
                let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                self.mount(c"proc", (c"proc", c"hidepid=2"), flags)
            }
            BuildStep::ReadOnlyAgain { path } => {
                let place = match self.open_mount_target(path) {
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
                    opened => opened?,
                };
                let attributes = attr::RDONLY | attr::NOSUID | attr::NODEV | attr::NOEXEC;
                mount::bind(place.as_fd(), place.as_fd(), attributes)
            }
            BuildStep::Layer {
                source,
                to,
                options,
                folders,
                hidden,
            } => {
                self.mount(to, (c"tmpfs", options), LAYER_FLAGS)?;
                let layer = self.open_mount_target(to)?;
                fill_layer(layer.as_fd(), folders, hidden)?;
                self.overlay(to, [layer.as_fd(), opened_source(sources, *source)?])
            }
            BuildStep::CoverOfProc { path, kind } => cover_proc_entry(path, *kind),
        }
    }

    /// Makes the last name of `path` in the folder above it.
    fn make_in_parent(
        &self,
        path: &CStr,
        make: impl FnOnce(BorrowedFd<'_>, &CStr) -> io::Result<()>,
    ) -> io::Result<()> {
        match split_parent(path)? {
            None => make(self.0.as_fd(), path),
            Some((above, name)) => {
                let above = self.open(&above, libc::O_PATH | libc::O_DIRECTORY)?;
                make(above.as_fd(), name)
            }
        }
    }

    /// Mounts a new file system of a kind, with its options, on a folder.
    fn mount(&self, to: &CStr, (kind, options): (&CStr, &CStr), flags: libc::c_ulong) -> io::Result<()> {
        mount::enter_folder(self.open_mount_target(to)?.as_fd())?;
        let mounted = mount::mount_new(kind, c".", flags, options);
        mount::enter_folder(self.0.as_fd())?;
        mounted
    }

    /// Mounts the lower folder, seen through the upper one, read-only at the upper one's path.
    fn overlay(&self, to: &CStr, folders: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        // By number: the path of the host's folder is in no option and in no table of mounts.
        let [upper, lower] = folders.map(|folder| folder.as_raw_fd());
        let options = CString::new(format!("lowerdir=/proc/self/fd/{upper}:/proc/self/fd/{lower}"))?;
        self.mount(to, (c"overlay", &options), LAYER_FLAGS | libc::MS_RDONLY)
    }
}

/// Puts a whiteout for every hidden name into an empty layer.
fn fill_layer(layer: BorrowedFd<'_>, folders: &[StepName<'_>], hidden: &[StepName<'_>]) -> io::Result<()> {
    for path in folders {
        fd::make_folder(layer, path, 0o755)?;
    }
    for path in hidden {
        fd::make_whiteout(layer, path)?;
    }
    Ok(())
}

const LAYER_FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV;

/// Covers an entry of `/proc`, which is the jail's own and has no links where something is covered.
fn cover_proc_entry(path: &CStr, kind: HiddenKind) -> io::Result<()> {
    let cover = match kind {
        HiddenKind::File => EMPTY_FILE,
        HiddenKind::Folder => EMPTY_FOLDER,
    };
    match mount::bind_path(cover, path) {
        // The covers exist: it is this kernel's `/proc` that has no such entry.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        done => done,
    }
}

/// The folder above the last name of a path, and that name; `None`: the path is a single name.
fn split_parent(path: &CStr) -> io::Result<Option<(CString, &CStr)>> {
    let bytes = path.to_bytes_with_nul();
    let Some(slash) = bytes.iter().rposition(|byte| *byte == b'/') else {
        return Ok(None);
    };
    let (above, name) = bytes.split_at(slash);
    let name = name.get(1..).and_then(|name| CStr::from_bytes_with_nul(name).ok());
    let name = name.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(Some((CString::new(above)?, name)))
}

fn opened_source(sources: &[OwnedFd], index: usize) -> io::Result<BorrowedFd<'_>> {
    let opened = sources.get(index);
    opened.map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
}
