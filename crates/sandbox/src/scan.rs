//! A look through a host folder before it is shown: what the policy hides, and what the sandbox could not read.
//!
//! `fs.deny` is applied here, once, to what comes from the host. A file that appears later in a writable place is the
//! program's own; it is kept from leaving instead.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_jail::{HiddenKind, Place};
use ringfence_policy::{Glob, RelPath};
use rustix::process::geteuid;

/// More is not looked through: a policy that shows so much should name a smaller folder.
const MOST_ENTRIES: usize = 200_000;

/// Why a folder cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// Something in it cannot be looked at.
    #[error("cannot look at `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
    /// The sandbox's user could not read it.
    #[error("`{}` cannot be read by the sandbox's user", path.display())]
    Unreadable { path: PathBuf },
    /// A name that is not text.
    #[error("`{}` has a name that is not plain text", path.display())]
    Name { path: PathBuf },
    /// Too much.
    #[error("`{}` holds more than {MOST_ENTRIES} entries", path.display())]
    TooMany { path: PathBuf },
}

/// What must be covered of `from`, which will be seen as `to`.
pub(crate) fn folder(from: &Path, to: &str, deny: &[Glob]) -> Result<Vec<Place>, ScanError> {
    let mut scan = Scan {
        root: from,
        to,
        deny,
        hidden: Vec::new(),
        entries: 0,
        as_stranger: geteuid().is_root(),
    };
    let found = fs::metadata(from).map_err(|source| ScanError::Look {
        path: from.to_owned(),
        source,
    })?;
    scan.check_readable(from, &found)?;
    if found.is_dir() {
        scan.walk(from)?;
    }
    Ok(scan.hidden)
}

struct Scan<'a> {
    root: &'a Path,
    to: &'a str,
    deny: &'a [Glob],
    hidden: Vec<Place>,
    entries: usize,
    /// As root the sandbox is a user of its own, to whom only what everybody may read is readable.
    as_stranger: bool,
}

impl Scan<'_> {
    fn walk(&mut self, folder: &Path) -> Result<(), ScanError> {
        let look = |source| ScanError::Look {
            path: folder.to_owned(),
            source,
        };
        for entry in fs::read_dir(folder).map_err(look)? {
            let path = entry.map_err(look)?.path();
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(ScanError::TooMany {
                    path: self.root.to_owned(),
                });
            }
            self.entry(&path)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> Result<(), ScanError> {
        let found = fs::symlink_metadata(path).map_err(|source| ScanError::Look {
            path: path.to_owned(),
            source,
        })?;
        if found.is_symlink() {
            // What it points at is judged under its own name, or is not in the sandbox at all.
            return Ok(());
        }
        let below = path.strip_prefix(self.root).unwrap_or(path);
        let text = below
            .to_str()
            .ok_or_else(|| ScanError::Name { path: path.to_owned() })?;
        let relative: RelPath = text.parse().map_err(|_| ScanError::Name { path: path.to_owned() })?;
        // A socket, a pipe or a device is a way to whoever is at its other end, whatever its mount says.
        let plain = found.is_dir() || found.is_file();
        if !plain || self.is_hidden(&relative, found.is_dir()) {
            let kind = if found.is_dir() {
                HiddenKind::Folder
            } else {
                HiddenKind::File
            };
            self.hidden.push(Place::Hidden {
                path: format!("{}/{text}", self.to),
                kind,
            });
            return Ok(());
        }
        self.check_readable(path, &found)?;
        if found.is_dir() { self.walk(path) } else { Ok(()) }
    }

    /// A folder whose every content is hidden is hidden itself.
    fn is_hidden(&self, path: &RelPath, folder: bool) -> bool {
        let inside = folder
            .then(|| format!("{}/any name", path.as_str()).parse::<RelPath>().ok())
            .flatten();
        self.deny
            .iter()
            .any(|glob| glob.hides(path) || inside.as_ref().is_some_and(|inside| glob.hides(inside)))
    }

    fn check_readable(&self, path: &Path, found: &fs::Metadata) -> Result<(), ScanError> {
        let wanted = if found.is_dir() { 0o5 } else { 0o4 };
        let readable = if self.as_stranger {
            found.mode() & wanted == wanted
        } else {
            rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
        };
        if readable {
            Ok(())
        } else {
            Err(ScanError::Unreadable { path: path.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests;
