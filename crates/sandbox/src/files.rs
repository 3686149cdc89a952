//! Files into and out of a sandbox's writable places, through handles that the host holds: never by a path on the host.
//!
//! Programs decide how many files there are, so all work has bounds, and a [`Workspace`] can be moved to a thread that
//! serves no requests.

mod content;
mod emitted;
mod skip_reason;
mod uncopied;
mod walk;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_policy::{Glob, RelPath};
use ringfence_wire::EmittedFile;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat2, unlinkat};

pub use skip_reason::{SkipCount, SkipReason, SkippedFiles};
pub use uncopied::{UncopiedFile, UncopiedFiles};
pub use walk::CollectLimits;

use crate::sandbox::Sandbox;
use crate::spec::WritableKind;
use crate::tree;
use content::{FileExtent, FileReader};
use emitted::EmitList;
use walk::WorkspaceWalk;

/// The place of a program's files.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Why a file could not be put into the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The policy has no writable `/workspace`.
    #[error("the policy gives no writable `/workspace`")]
    NoWorkspace,
    /// The host's file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The path of the file on the host.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file could not be written in the workspace.
    #[error("cannot bring `{name}` into the sandbox")]
    Write {
        /// The name of the file in the workspace.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread that writes as the sandbox's user did not finish.
    #[error("the work was abandoned")]
    Abandoned,
}

impl PutError {
    /// What the caller can do about it; `None` when the fault is not the caller's.
    pub fn hint(&self) -> Option<&'static str> {
        use std::io::ErrorKind;
        const FULL: [ErrorKind; 3] = [
            ErrorKind::StorageFull,
            ErrorKind::QuotaExceeded,
            ErrorKind::FileTooLarge,
        ];
        const MISNAMED: [ErrorKind; 4] = [
            ErrorKind::NotADirectory,
            ErrorKind::IsADirectory,
            ErrorKind::AlreadyExists,
            ErrorKind::InvalidFilename,
        ];
        match self {
            PutError::NoWorkspace => Some("give the policy a writable mount at `/workspace`"),
            PutError::Write { source, .. } if FULL.contains(&source.kind()) => {
                Some("bring fewer or smaller files, or raise the quota of `/workspace` in `fs.mounts`")
            }
            PutError::Write { source, .. } if MISNAMED.contains(&source.kind()) => {
                Some("give each file a name of its own, and no file the name of a folder of another")
            }
            PutError::Write { source, .. } if is_occupied(source) || source.kind() == ErrorKind::PermissionDenied => {
                Some("a link, a pipe or a closed folder stands in its way: choose another name, or remove that first")
            }
            PutError::Write { .. } | PutError::Read { .. } | PutError::Abandoned => None,
        }
    }

    /// The rule of the place that does not take the file; `None` when the fault is not the caller's.
    pub fn rule(&self) -> Option<String> {
        self.hint().map(|_| format!("fs.mounts[{WORKSPACE}]"))
    }
}

/// Why files could not be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A file or folder of the workspace could not be read.
    #[error("cannot look at `{name}` in the sandbox")]
    Look {
        /// Its name in the workspace.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A copy could not be written on the host.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The path of the copy on the host.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// How a file differs from the state before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// The file did not exist before.
    Created,
    /// The file existed with other content.
    Changed,
    /// The file is unchanged, and the program emits it all the same.
    Unchanged,
}

/// A plain file that the host found in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// The path below the workspace.
    pub path: RelPath,
    /// The length of the file, holes included.
    pub bytes: u64,
    /// The digest of the content, as hexadecimal digits.
    pub sha256: String,
    /// The difference from the state before the run.
    pub change: FileChange,
    /// The media type that the program gave when it emitted the file; `None` when it did not.
    pub emitted: Option<String>,
}

/// The new and changed files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedFiles {
    /// The emitted files in the program's order, then the others by path.
    pub files: Vec<WorkspaceFile>,
    /// The files that were skipped, and why.
    pub skipped: SkippedFiles,
    /// Files that the program emitted and the host refused, and why.
    pub withheld: Vec<(String, SkipReason)>,
}

impl CollectedFiles {
    /// What is known of a workspace that could not be read: nothing of it leaves.
    pub fn unread(emitted: &[EmittedFile]) -> CollectedFiles {
        let unread = |path: &str| (path.to_owned(), SkipReason::Unreadable);
        let mut skipped = SkippedFiles::default();
        skipped.add(WORKSPACE, SkipReason::Unreadable);
        CollectedFiles {
            withheld: EmitList::new(emitted).paths().map(unread).collect(),
            skipped,
            files: Vec::new(),
        }
    }
}

/// What `copy_out` does when the folder already has a file of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingFileAction {
    /// The existing file stays, and the new one is not copied.
    Keep,
    /// The new file replaces the existing one.
    Overwrite,
}

/// What `copy_out` did with one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyOutcome {
    /// The file was copied to the folder.
    Copied,
    /// The folder already has the file with the same content.
    Unchanged,
    /// The file was not copied, for this reason.
    Skipped(SkipReason),
}

/// The contents of files, by path.
pub type FileContents = BTreeMap<String, Vec<u8>>;

/// A handle on a sandbox's workspace for reading its files; it can be moved to another thread.
#[derive(Debug)]
pub struct Workspace {
    /// `None`: the policy has no workspace.
    root: Option<OwnedFd>,
    quota: u64,
    is_in_memory: bool,
}

impl Sandbox {
    /// Copies a file of the host to `name` in the workspace.
    pub fn put_file(&self, from: &Path, name: &RelPath) -> Result<String, PutError> {
        let file = File::open(from).map_err(|source| PutError::Read {
            path: from.to_owned(),
            source,
        })?;
        let found = file.metadata().map_err(|source| PutError::Read {
            path: from.to_owned(),
            source,
        })?;
        if !found.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a plain file");
            return Err(PutError::Read {
                path: from.to_owned(),
                source,
            });
        }
        self.write(name, file)
    }

    /// Writes a file of these bytes to `name` in the workspace.
    pub fn put_bytes(&self, bytes: &[u8], name: &RelPath) -> Result<String, PutError> {
        self.write(name, bytes)
    }

    fn write(&self, name: &RelPath, mut from: impl Read + Send) -> Result<String, PutError> {
        self.restore_places();
        let workspace = self.place(WORKSPACE).ok_or(PutError::NoWorkspace)?;
        // The file systems of a sandbox may refuse files of users that have no number in it.
        let written = self.inner.run_as_owner(|| {
            write_file_beneath(workspace, name, ExistingFileAction::Overwrite, |to| {
                content::copy_and_digest(&mut from, to)
            })
        });
        let written = written.map_err(|_| PutError::Abandoned)?;
        written.map_err(|source| PutError::Write {
            name: name.as_str().to_owned(),
            source,
        })
    }

    /// Gives the owner's permissions of the writable places back: an earlier program may have taken them away.
    fn restore_places(&self) {
        for (place, root) in self.places() {
            if let Err(error) = tree::restore_owner_access(root) {
                tracing::debug!(%error, place = place.path, "a place keeps the permissions that a program gave it");
            }
        }
    }

    /// A handle on the workspace, to be read while nothing runs.
    pub fn workspace(&self) -> Result<Workspace, CollectError> {
        self.restore_places();
        let place = self.places().find(|(place, _)| place.path == WORKSPACE);
        let root = place.as_ref().map(|(_, root)| root.try_clone_to_owned()).transpose();
        let root = root.map_err(|source| CollectError::Look {
            name: ".".to_owned(),
            source,
        })?;
        let place = place.map(|(place, _)| place);
        Ok(Workspace {
            root,
            quota: place.map_or(0, |place| place.quota),
            is_in_memory: place.is_none_or(|place| place.kind == WritableKind::Memory),
        })
    }
}

impl Workspace {
    /// The limits that follow from the workspace's size.
    pub fn limits(&self) -> CollectLimits {
        CollectLimits::for_quota(self.quota)
    }

    /// Whether a thread that serves requests may read it inline: a workspace on disk can block that thread.
    pub fn can_look_inline(&self) -> bool {
        self.is_in_memory
    }

    /// The digests of the files in the workspace now, for a later comparison, and the files that could not be read.
    pub fn snapshot(&self, limits: &CollectLimits) -> Result<(BTreeMap<String, String>, SkippedFiles), CollectError> {
        let Some(root) = &self.root else {
            return Ok(Default::default());
        };
        let mut walk = WorkspaceWalk::new(root.as_fd(), &[], limits);
        walk.visit_all()?;
        let digests = walk.found.into_iter();
        let digests = digests.map(|found| (found.path.as_str().to_owned(), found.digest));
        Ok((digests.collect(), walk.skipped))
    }

    /// Finds new and changed plain files and emitted ones; files that `deny` names never leave.
    pub fn collect(
        &self,
        before: &BTreeMap<String, String>,
        deny: &[Glob],
        emitted: &[EmittedFile],
        limits: &CollectLimits,
    ) -> Result<CollectedFiles, CollectError> {
        let wanted = EmitList::new(emitted);
        let Some(root) = &self.root else {
            let gone = |path: &str| (path.to_owned(), SkipReason::Gone);
            return Ok(CollectedFiles {
                withheld: wanted.paths().map(gone).collect(),
                ..CollectedFiles::default()
            });
        };
        let mut walk = WorkspaceWalk::new(root.as_fd(), deny, limits);
        // Emitted files come first, so that no other file uses up the limits before them.
        let withheld = wanted
            .paths()
            .filter_map(|path| Some((path.to_owned(), walk.visit_emitted(path)?)));
        let withheld = withheld.collect();
        walk.visit_all()?;
        let mut files = Vec::new();
        for found in walk.found {
            let emitted = wanted.media_type(found.path.as_str());
            let change = match before.get(found.path.as_str()) {
                Some(old) if *old == found.digest && emitted.is_none() => continue,
                Some(old) if *old == found.digest => FileChange::Unchanged,
                Some(_) => FileChange::Changed,
                None => FileChange::Created,
            };
            files.push(WorkspaceFile {
                path: found.path,
                bytes: found.bytes,
                sha256: found.digest,
                change,
                emitted,
            });
        }
        files.sort_by_cached_key(|file| (wanted.position(file.path.as_str()), file.path.as_str().to_owned()));
        Ok(CollectedFiles {
            files,
            skipped: walk.skipped,
            withheld,
        })
    }

    /// Reads the contents of collected files.
    pub fn read_all(&self, files: &[WorkspaceFile]) -> Result<FileContents, CollectError> {
        let mut contents = BTreeMap::new();
        let Some(root) = &self.root else {
            return Ok(contents);
        };
        for file in files {
            let name = file.path.as_str();
            let from = open_beneath(root.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
                .map_err(look_error(name))?;
            let mut content = Vec::new();
            // Reads one byte more than was found, so that a file that grew is noticed.
            let mut from = File::from(from).take(file.bytes + 1);
            from.read_to_end(&mut content).map_err(look_error(name))?;
            contents.insert(name.to_owned(), content);
        }
        Ok(contents)
    }

    /// Copies collected files below `to` as plain files with plain modes and their holes; follows no link on either side.
    /// Returns the outcome of each, in their order; after `time` nothing more is copied.
    pub fn copy_out(
        &self,
        files: &[WorkspaceFile],
        to: &Path,
        existing: ExistingFileAction,
        time: Duration,
    ) -> Result<Vec<CopyOutcome>, CollectError> {
        let mut outcomes = Vec::with_capacity(files.len());
        let Some(root) = &self.root else {
            return Ok(outcomes);
        };
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| CollectError::Write { path, source }
        };
        std::fs::create_dir_all(to).map_err(failed(to))?;
        let folder = File::open(to).map_err(failed(to))?;
        let mut reader = FileReader::with_deadline(Instant::now() + time);
        for file in files {
            let name = file.path.as_str();
            if reader.check_time().is_err() {
                outcomes.push(CopyOutcome::Skipped(SkipReason::Time));
                continue;
            }
            let from = open_beneath(root.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
            let from = from.map(File::from);
            let found = from.and_then(|from| Ok((FileExtent::from_file(&from)?, from)));
            let (extent, from) = match found {
                Ok(found) => found,
                // It was there when it was found; the others are still copied.
                Err(error) => {
                    outcomes.push(CopyOutcome::Skipped(walk::skip_reason_for(&error)));
                    continue;
                }
            };
            // A file that grew is copied only to the length that was found.
            let extent = FileExtent {
                length: extent.length.min(file.bytes),
                stored: extent.stored.min(file.bytes),
            };
            let copied = write_file_beneath(folder.as_fd(), &file.path, existing, |to| {
                reader.copy(&from, extent, to)
            });
            outcomes.push(match copied {
                Ok(()) => CopyOutcome::Copied,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => CopyOutcome::Skipped(SkipReason::Time),
                Err(error) if existing == ExistingFileAction::Keep && error.kind() == io::ErrorKind::AlreadyExists => {
                    if has_same_content(folder.as_fd(), file, &mut reader) {
                        CopyOutcome::Unchanged
                    } else {
                        CopyOutcome::Skipped(SkipReason::Exists)
                    }
                }
                // The remaining files are still copied.
                Err(error) if is_occupied(&error) => CopyOutcome::Skipped(SkipReason::Occupied),
                Err(error) => return Err(failed(&to.join(name))(error)),
            });
        }
        Ok(outcomes)
    }
}

/// Whether the name of a file is taken by something that is not a file.
fn is_occupied(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let numbers = [Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NXIO, Errno::EXIST];
    error.kind() == io::ErrorKind::InvalidInput
        || numbers
            .iter()
            .any(|number| error.raw_os_error() == Some(number.raw_os_error()))
}

fn look_error(name: &str) -> impl FnOnce(io::Error) -> CollectError {
    let name = name.to_owned();
    move |source| CollectError::Look { name, source }
}

fn open_beneath(root: BorrowedFd<'_>, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(
        root,
        path,
        flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        mode,
        beneath,
    )?)
}

/// Whether the plain file of that name below `root` has the content of `file`. A file that cannot be read counts as
/// different.
fn has_same_content(root: BorrowedFd<'_>, file: &WorkspaceFile, reader: &mut FileReader) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(there) = open_beneath(root, file.path.as_str(), flags, Mode::empty()).map(File::from) else {
        return false;
    };
    FileExtent::from_file(&there).is_ok_and(|extent| {
        extent.length == file.bytes && reader.digest(&there, extent).is_ok_and(|digest| digest == file.sha256)
    })
}

/// Makes the plain file `name` and the folders above it below `root`, and fills it.
fn write_file_beneath<T>(
    root: BorrowedFd<'_>,
    name: &RelPath,
    existing: ExistingFileAction,
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let text = name.as_str();
    for (index, _) in text.match_indices('/') {
        let parent = text.get(..index).unwrap_or_default();
        let above = parent.rsplit_once('/').map_or(".", |(above, _)| above);
        let last = parent.rsplit('/').next().unwrap_or(parent);
        let folder = open_beneath(root, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        match mkdirat(&folder, last, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let unless_there = match existing {
        ExistingFileAction::Keep => OFlags::EXCL,
        ExistingFileAction::Overwrite => OFlags::TRUNC,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | unless_there;
    let mut to = File::from(open_beneath(root, text, flags, Mode::from_raw_mode(0o644))?);
    if !to.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "something else than a plain file is there",
        ));
    }
    let filled = fill(&mut to);
    if filled.is_err() {
        // A partial file is removed. If that fails too, the error that follows reports it.
        let (above, last) = text.rsplit_once('/').unwrap_or((".", text));
        let _ = open_beneath(root, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
            .and_then(|folder| Ok(unlinkat(folder, last, AtFlags::empty())?));
    }
    filled
}

#[cfg(test)]
mod tests;
