//! Scans a host folder before it is shown: finds what the policy hides and what the sandbox could not read.
//!
//! `fs.deny` is applied here, once, to what comes from the host: to the whole real path of a mount and to every name below
//! it. A file that appears later in a writable place is the program's own; it is kept from leaving instead.

mod links;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_policy::{Glob, GlobSet, GlobState};
use rustix::fs::{Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, accessat, openat, statat};
use rustix::process::geteuid;

use links::HardLinks;

/// The most entries that a scan visits: a policy that shows more should name a smaller folder.
const MAX_ENTRIES: usize = 200_000;
/// The most levels of nested folders that a scan visits.
const MAX_DEPTH: usize = 128;
/// The most names that are hidden one by one.
const MAX_HIDDEN: usize = 50_000;
/// How long the scan of all host folders of one sandbox may take.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);
/// The most names that are hidden although they do not exist yet, in the folders nearest to the top.
const MAX_RESERVED: usize = 512;
/// The longest path inside the sandbox.
const MAX_PATH: usize = 4_000;

/// Why a folder cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// An entry cannot be inspected.
    #[error("cannot look at `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
    /// The sandbox's user cannot read the entry.
    #[error("`{}` cannot be read by the sandbox's user", path.display())]
    Unreadable { path: PathBuf },
    /// The name of an entry is not text.
    #[error("`{}` has a name that is not plain text", path.display())]
    Name { path: PathBuf },
    /// The folder itself is what the policy hides.
    #[error("`{}` is hidden by `fs.deny` (`{glob}`)", path.display())]
    Denied { path: PathBuf, glob: Glob },
    /// The folder holds Ringfence's own data or keys.
    #[error("`{}` lies in a folder with Ringfence's own data or keys, which no sandbox is shown", path.display())]
    Private { path: PathBuf },
    /// The path is a socket, pipe or device.
    #[error("`{}` is neither a folder nor a plain file", path.display())]
    Kind { path: PathBuf },
    /// Another file system is mounted below the folder.
    #[error("`{}` is mounted below `{}`, where names cannot be hidden", inner.display(), path.display())]
    MountBelow { path: PathBuf, inner: PathBuf },
    /// The folder holds more entries than a scan visits.
    #[error("`{}` holds more than {MAX_ENTRIES} entries", path.display())]
    TooMany { path: PathBuf },
    /// The folder holds more names to hide than the maximum.
    #[error("`{}` holds more than {MAX_HIDDEN} names that are hidden", path.display())]
    TooManyHidden { path: PathBuf },
    /// A folder is nested deeper than a scan visits.
    #[error("`{}` lies deeper than {MAX_DEPTH} folders", path.display())]
    TooDeep { path: PathBuf },
    /// The scan takes longer than its time limit.
    #[error("looking through `{}` takes longer than {} seconds", path.display(), SCAN_TIMEOUT.as_secs())]
    TooSlow { path: PathBuf },
}

/// How a host path is shown: as it is, or as a folder without some names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostEntry {
    /// A plain file, shown as it is.
    File,
    /// A folder, and the paths below it that are hidden.
    Folder { hidden: BTreeSet<String> },
}

/// Scans the host folders of one sandbox: entries and time are counted for all of them together.
#[derive(Debug)]
pub(crate) struct HostScanner<'a> {
    globs: GlobSet<'a>,
    /// The folders that globs without a leading `**` are relative to.
    anchors: Vec<PathBuf>,
    budget: ScanBudget,
}

/// What the scan of all host folders of one sandbox may cost.
#[derive(Debug)]
struct ScanBudget {
    entries: usize,
    deadline: Instant,
}

/// Which part of the budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanExhausted {
    Entries,
    Time,
}

impl ScanBudget {
    /// Counts one more entry.
    fn spend_entry(&mut self) -> Result<(), ScanExhausted> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            Err(ScanExhausted::Entries)
        } else if Instant::now() > self.deadline {
            Err(ScanExhausted::Time)
        } else {
            Ok(())
        }
    }
}

impl<'a> HostScanner<'a> {
    /// A scanner for the globs `deny`, which are relative to each of the existing `folders`.
    pub(crate) fn new<'p>(deny: &'a [Glob], folders: impl Iterator<Item = &'p Path>) -> HostScanner<'a> {
        HostScanner {
            globs: GlobSet::new(deny),
            anchors: folders.filter_map(|folder| fs::canonicalize(folder).ok()).collect(),
            budget: ScanBudget {
                entries: 0,
                deadline: Instant::now() + SCAN_TIMEOUT,
            },
        }
    }

    /// The state of the globs at `real`, a path without links; an error where one of them hides it or a folder above it.
    pub(crate) fn glob_state_at(&self, real: &Path) -> Result<GlobState, ScanError> {
        let mut at = PathBuf::from("/");
        let mut state = self.globs.root_state();
        for component in real.components() {
            let Component::Normal(name) = component else { continue };
            if self.anchors.contains(&at) {
                state = self.globs.mount_state(&state);
            }
            let named = ScanError::Name { path: real.to_owned() };
            let name = plain_name(name.to_str()).ok_or(named)?;
            let glob = self.globs.hidden_by(&state, name);
            state = self.globs.enter(&state, name);
            at.push(name);
            if is_private(CWD, &at) && !is_tools_below(real, &at) {
                return Err(ScanError::Private { path: real.to_owned() });
            }
            if let Some(glob) = glob.or_else(|| self.globs.hides_all(&state)) {
                return Err(ScanError::Denied {
                    path: real.to_owned(),
                    glob: glob.clone(),
                });
            }
        }
        Ok(self.globs.mount_state(&state))
    }

    /// What is shown of `real`, a path without links.
    pub(crate) fn inspect(&mut self, real: &Path) -> Result<HostEntry, ScanError> {
        let state = self.glob_state_at(real)?;
        let look = |source: rustix::io::Errno| ScanError::Look {
            path: real.to_owned(),
            source: source.into(),
        };
        let found = statat(CWD, real, AtFlags::SYMLINK_NOFOLLOW).map_err(look)?;
        let mut walk = FolderScan {
            root: real,
            hidden: BTreeSet::new(),
            reserved: Vec::new(),
            links: HardLinks::default(),
            as_stranger: geteuid().is_root(),
            has_anchors: self
                .anchors
                .iter()
                .any(|anchor| anchor != real && anchor.starts_with(real)),
            scanner: self,
        };
        walk.check_readable(CWD, (real.as_os_str().as_encoded_bytes(), real), &found)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(HostEntry::File),
            FileType::Directory => {
                refuse_mounts_below(real)?;
                let folder = openat(CWD, real, FOLDER, Mode::empty()).map_err(look)?;
                walk.scan_folder(&folder, &mut String::new(), &state, 0)?;
                Ok(HostEntry::Folder { hidden: walk.finish() })
            }
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(ScanError::Kind { path: real.to_owned() }),
        }
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

struct FolderScan<'s, 'a> {
    root: &'s Path,
    hidden: BTreeSet<String>,
    /// Names that do not exist yet, with the depth of their folder.
    reserved: Vec<(usize, String)>,
    links: HardLinks,
    /// Whether only world-readable entries are readable: a sandbox made by root has a user of its own.
    as_stranger: bool,
    /// Whether folders below this one are shown by mounts of their own too.
    has_anchors: bool,
    scanner: &'s mut HostScanner<'a>,
}

impl FolderScan<'_, '_> {
    /// Scans one folder; `path` is its path below the root, and has the same value on return.
    fn scan_folder(
        &mut self,
        folder: &OwnedFd,
        path: &mut String,
        state: &GlobState,
        depth: usize,
    ) -> Result<(), ScanError> {
        if depth > MAX_DEPTH || path.len() > MAX_PATH {
            return Err(ScanError::TooDeep {
                path: self.full_path(path),
            });
        }
        self.reserve(path, state, depth);
        let entries = Dir::read_from(folder).map_err(|error| self.look_error(path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| self.look_error(path, error))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.count(path)?;
            let Some(name) = plain_name(name.to_str().ok()) else {
                let name = name.to_string_lossy();
                return Err(ScanError::Name {
                    path: self.full_path(path).join(name.as_ref()),
                });
            };
            let above = path.len();
            if above > 0 {
                path.push('/');
            }
            path.push_str(name);
            self.scan_entry(folder, (name, path), state, depth)?;
            path.truncate(above);
        }
        Ok(())
    }

    fn scan_entry(
        &mut self,
        folder: &OwnedFd,
        (name, path): (&str, &mut String),
        state: &GlobState,
        depth: usize,
    ) -> Result<(), ScanError> {
        let found = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            found => found.map_err(|error| self.look_error(path, error))?,
        };
        let kind = FileType::from_raw_mode(found.st_mode);
        let hidden = self.scanner.globs.hidden_by(state, name).is_some();
        if kind == FileType::Directory {
            let mut inside = self.scanner.globs.enter(state, name);
            if self.has_anchors && self.scanner.anchors.contains(&self.full_path(path)) {
                // The folder is also shown by a mount of its own: what is hidden there is hidden here.
                inside = self.scanner.globs.mount_state(&inside);
            }
            if hidden || self.scanner.globs.hides_all(&inside).is_some() || is_private(folder, Path::new(name)) {
                self.links.deny_below(folder, name, &mut self.scanner.budget);
                self.count(path)?;
                return self.hide(path);
            }
            self.check_readable(folder, (name.as_bytes(), &self.full_path(path)), &found)?;
            let opened = openat(folder, name, FOLDER, Mode::empty()).map_err(|error| self.look_error(path, error))?;
            return self.scan_folder(&opened, path, &inside, depth + 1);
        }
        if kind == FileType::RegularFile {
            self.links.add(&found, path, hidden);
        }
        // A socket, a pipe or a device leads to the process at its other end, whatever its mount says. The target of a link
        // is judged under its own name, or is not in the sandbox at all.
        match kind {
            _ if hidden => self.hide(path),
            FileType::Symlink => Ok(()),
            FileType::RegularFile => self.check_readable(folder, (name.as_bytes(), &self.full_path(path)), &found),
            FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => self.hide(path),
        }
    }

    fn hide(&mut self, path: &str) -> Result<(), ScanError> {
        self.hidden.insert(path.to_owned());
        if self.hidden.len() > MAX_HIDDEN {
            return Err(ScanError::TooManyHidden {
                path: self.root.to_owned(),
            });
        }
        Ok(())
    }

    /// Reserves the names that a glob spells out, so that they stay hidden when the host makes them later.
    fn reserve(&mut self, path: &str, state: &GlobState, depth: usize) {
        // Deep folders would be too many; the final order is by a folder's own depth.
        if depth > 3 || self.reserved.len() >= 8 * MAX_RESERVED {
            return;
        }
        let above = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let names = self.scanner.globs.known_names(state);
        let names = names.into_iter().map(|name| (depth, format!("{above}{name}")));
        self.reserved.extend(names);
    }

    /// All hidden paths: hidden by their name, by another name of the same file, and reserved ones.
    fn finish(mut self) -> BTreeSet<String> {
        self.hidden.extend(self.links.other_names());
        self.reserved.sort_by_key(|(depth, _)| *depth);
        let reserved = self.reserved.into_iter().take(MAX_RESERVED).map(|(_, path)| path);
        self.hidden.extend(reserved);
        self.hidden
    }

    fn count(&mut self, path: &str) -> Result<(), ScanError> {
        self.scanner.budget.spend_entry().map_err(|spent| match spent {
            ScanExhausted::Entries => ScanError::TooMany {
                path: self.root.to_owned(),
            },
            ScanExhausted::Time => ScanError::TooSlow {
                path: self.full_path(path),
            },
        })
    }

    fn check_readable(&self, folder: impl AsFd, (name, whole): (&[u8], &Path), found: &Stat) -> Result<(), ScanError> {
        let wanted = if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            0o5
        } else {
            0o4
        };
        let readable = if self.as_stranger {
            found.st_mode & wanted == wanted
        } else if found.st_uid == geteuid().as_raw() {
            found.st_mode >> 6 & wanted == wanted
        } else {
            accessat(folder, name, Access::READ_OK, AtFlags::empty()).is_ok()
        };
        if readable {
            Ok(())
        } else {
            Err(ScanError::Unreadable { path: whole.to_owned() })
        }
    }

    fn full_path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn look_error(&self, path: &str, error: rustix::io::Errno) -> ScanError {
        ScanError::Look {
            path: self.full_path(path),
            source: error.into(),
        }
    }
}

/// Whether a folder is a data or configuration folder of Ringfence, which holds journals, keys, vaults and files of other
/// sessions.
fn is_private(above: impl AsFd, folder: &Path) -> bool {
    const JOURNAL: &str = "ringfence.db";
    const KEYS: &str = "vault.key";
    const CONFIGURATION: &str = "ringfence";
    let has = |name: &str| statat(above.as_fd(), folder.join(name), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    has(JOURNAL) || folder.file_name().is_some_and(|name| name == CONFIGURATION) && has(KEYS)
}

/// Whether a path lies in the folder for type checkers of a data folder: `doctor` suggests to install them there, and they
/// run in sandboxes.
fn is_tools_below(real: &Path, data_folder: &Path) -> bool {
    const TOOLS: &str = "tools";
    real.strip_prefix(data_folder)
        .is_ok_and(|inside| inside.starts_with(TOOLS))
}

/// A name that globs can be compared with.
fn plain_name(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !name.chars().any(char::is_control))
}

/// Fails where something is mounted below a folder with hidden names: the mount would show what lies beneath it, or nothing
/// at all.
fn refuse_mounts_below(folder: &Path) -> Result<(), ScanError> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = fs::read(TABLE).map_err(|source| ScanError::Look {
        path: TABLE.into(),
        source,
    })?;
    match mount_below(&table, folder) {
        Some(inner) => Err(ScanError::MountBelow {
            path: folder.to_owned(),
            inner,
        }),
        None => Ok(()),
    }
}

/// The first mount point of a `mountinfo` table that lies below `folder`.
fn mount_below(table: &[u8], folder: &Path) -> Option<PathBuf> {
    const MOUNT_POINT: usize = 4;
    let points = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(MOUNT_POINT));
    let mut points = points.map(|point| PathBuf::from(OsString::from_vec(unescaped(point))));
    points.find(|point| point != folder && point.starts_with(folder))
}

/// Decodes a field of the table: blanks and backslashes in it are written as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() {
            after.get(3..).unwrap_or_default()
        } else {
            after
        };
    }
    plain
}

#[cfg(test)]
mod tests;
