//! Walks through what programs left, within limits on bytes, holes, entries, depth, names and time. Follows no link.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use ringfence_policy::{Glob, RelPath};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};
use rustix::io::Errno;

use super::content::{FileExtent, FileReader};
use super::skip_reason::{SkipReason, SkippedFiles};
use super::{CollectError, open_beneath};

/// What the host spends on collecting files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectLimits {
    /// Bytes that are stored on disk or in memory.
    pub stored: u64,
    /// Bytes of holes: they take no space but are hashed like others.
    pub holes: u64,
    /// Files, folders and other entries that the host visits.
    pub entries: u64,
    /// Levels of nested folders.
    pub depth: usize,
    /// Bytes of all paths together.
    pub names: u64,
    /// How long the walk may take.
    pub time: Duration,
}

impl CollectLimits {
    /// The limits for a workspace of this size.
    pub fn for_quota(quota: u64) -> CollectLimits {
        CollectLimits {
            stored: quota,
            holes: quota,
            entries: 100_000,
            depth: 64,
            names: 16 << 20,
            time: Duration::from_secs(10).saturating_add(Duration::from_secs(quota.min(1 << 40) / (32 << 20))),
        }
    }

    /// Limits so low that a thread that serves requests can walk inline.
    pub const INLINE: CollectLimits = CollectLimits {
        stored: 64 << 10,
        holes: 64 << 10,
        entries: 32,
        depth: 8,
        names: 8 << 10,
        time: Duration::from_millis(5),
    };
}

/// A plain file that the walk found.
#[derive(Debug)]
pub(super) struct ScannedFile {
    pub(super) path: RelPath,
    pub(super) bytes: u64,
    pub(super) digest: String,
}

/// Whether the walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkStep {
    Continue,
    Stop,
}

/// One walk through a workspace.
pub(super) struct WorkspaceWalk<'a> {
    root: BorrowedFd<'a>,
    deny: &'a [Glob],
    budget: CollectLimits,
    reader: FileReader,
    pub(super) found: Vec<ScannedFile>,
    /// Paths that were visited by name before all others.
    named: HashSet<String>,
    pub(super) skipped: SkippedFiles,
}

impl<'a> WorkspaceWalk<'a> {
    pub(super) fn new(root: BorrowedFd<'a>, deny: &'a [Glob], limits: &CollectLimits) -> WorkspaceWalk<'a> {
        let deadline = Instant::now() + limits.time;
        WorkspaceWalk {
            root,
            deny,
            budget: *limits,
            reader: FileReader::with_deadline(deadline),
            found: Vec::new(),
            named: HashSet::new(),
            skipped: SkippedFiles::default(),
        }
    }

    /// Visits one emitted file before all others. Returns why it cannot be copied.
    pub(super) fn visit_emitted(&mut self, path: &str) -> Option<SkipReason> {
        let relative = match path.parse::<RelPath>() {
            Ok(relative) if path.matches('/').count() <= self.budget.depth => relative,
            Ok(_) => {
                self.skipped.add(path, SkipReason::Depth);
                return Some(SkipReason::Depth);
            }
            Err(_) => return Some(SkipReason::Name),
        };
        if self.deny.iter().any(|glob| glob.hides(&relative)) {
            return Some(SkipReason::Denied);
        }
        self.named.insert(path.to_owned());
        let reason = self.add_file(self.root, path, relative).err();
        // The full walk visits files again that are not plain.
        if let Some(reason) = reason.filter(|reason| reason.is_limit()) {
            self.skipped.add(path, reason);
        }
        reason
    }

    /// Visits every entry of the workspace that was not visited by name.
    pub(super) fn visit_all(&mut self) -> Result<(), CollectError> {
        let look = |source: io::Error| CollectError::Look {
            name: ".".to_owned(),
            source,
        };
        let root = open_beneath(self.root, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map_err(look)?;
        self.visit_folder(root.as_fd(), "", 0).map(drop).map_err(look)
    }

    fn visit_folder(&mut self, handle: BorrowedFd<'_>, path: &str, depth: usize) -> io::Result<WalkStep> {
        for entry in Dir::read_from(handle)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let text = name.to_str();
            let shown = text.map_or_else(|_| name.to_bytes().escape_ascii().to_string(), str::to_owned);
            let below = if path.is_empty() {
                shown
            } else {
                format!("{path}/{shown}")
            };
            if let Some(reason) = self.spend_entry(&below) {
                self.skipped.add(&below, reason);
                return Ok(WalkStep::Stop);
            }
            if text.is_err() {
                self.skipped.add(&below, SkipReason::NotUtf8);
                continue;
            }
            let Ok(relative) = below.parse::<RelPath>() else {
                self.skipped.add(&below, SkipReason::Name);
                continue;
            };
            let Ok(found) = statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let kind = FileType::from_raw_mode(found.st_mode);
            if self.visit_entry(handle, relative, kind, depth) == WalkStep::Stop {
                return Ok(WalkStep::Stop);
            }
        }
        Ok(WalkStep::Continue)
    }

    /// Spends one entry of the budget; returns a reason when the budget is used up.
    fn spend_entry(&mut self, path: &str) -> Option<SkipReason> {
        let (entries, names) = (
            self.budget.entries.checked_sub(1),
            self.budget.names.checked_sub(path.len() as u64),
        );
        let (Some(entries), Some(names)) = (entries, names) else {
            return Some(SkipReason::Entries);
        };
        (self.budget.entries, self.budget.names) = (entries, names);
        self.reader.check_time().is_err().then_some(SkipReason::Time)
    }

    fn visit_entry(&mut self, above: BorrowedFd<'_>, path: RelPath, kind: FileType, depth: usize) -> WalkStep {
        if self.deny.iter().any(|glob| glob.hides(&path)) {
            self.skipped.add(path.as_str(), SkipReason::Denied);
            return WalkStep::Continue;
        }
        let name = path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        let reason = match kind {
            FileType::Directory if depth >= self.budget.depth => SkipReason::Depth,
            FileType::Directory => return self.visit_subfolder(above, &name, path.as_str(), depth),
            FileType::RegularFile if self.named.contains(path.as_str()) => return WalkStep::Continue,
            FileType::RegularFile => {
                let text = path.as_str().to_owned();
                let Err(reason) = self.add_file(above, &name, path) else {
                    return WalkStep::Continue;
                };
                self.skipped.add(&text, reason);
                return if reason == SkipReason::Time {
                    WalkStep::Stop
                } else {
                    WalkStep::Continue
                };
            }
            FileType::Symlink => SkipReason::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => SkipReason::NotPlain,
        };
        self.skipped.add(path.as_str(), reason);
        WalkStep::Continue
    }

    fn visit_subfolder(&mut self, above: BorrowedFd<'_>, name: &str, path: &str, depth: usize) -> WalkStep {
        let opened = open_beneath(above, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let looked = opened.and_then(|handle| self.visit_folder(handle.as_fd(), path, depth + 1));
        looked.unwrap_or_else(|error| {
            self.skipped.add(path, skip_reason_for(&error));
            WalkStep::Continue
        })
    }

    /// Adds a file. A file that cannot be read, or is replaced during the walk, is skipped.
    fn add_file(&mut self, above: BorrowedFd<'_>, name: &str, path: RelPath) -> Result<(), SkipReason> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = open_beneath(above, name, flags, Mode::empty()).map_err(|error| skip_reason_for(&error))?;
        let file = File::from(file);
        let extent = FileExtent::from_file(&file).map_err(|error| skip_reason_for(&error))?;
        let stored = self.budget.stored.checked_sub(extent.stored).ok_or(SkipReason::Bytes)?;
        let holes = self.budget.holes.checked_sub(extent.holes()).ok_or(SkipReason::Holes)?;
        (self.budget.stored, self.budget.holes) = (stored, holes);
        let digest = self
            .reader
            .digest(&file, extent)
            .map_err(|error| skip_reason_for(&error))?;
        self.found.push(ScannedFile {
            path,
            bytes: extent.length,
            digest,
        });
        Ok(())
    }
}

pub(super) fn skip_reason_for(error: &io::Error) -> SkipReason {
    match (error.kind(), Errno::from_io_error(error)) {
        (io::ErrorKind::NotFound, _) => SkipReason::Gone,
        (io::ErrorKind::TimedOut, _) => SkipReason::Time,
        (io::ErrorKind::InvalidInput, _) | (_, Some(Errno::NXIO | Errno::NODEV)) => SkipReason::NotPlain,
        (_, Some(Errno::LOOP)) => SkipReason::Link,
        _ => SkipReason::Unreadable,
    }
}
