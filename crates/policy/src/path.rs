//! Paths that exist only in canonical form: absolute in the sandbox, or relative to a folder.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::text::text_type;

/// The longest path, in bytes.
const MAX_PATH_BYTES: usize = 4_096;
/// The longest single name, in bytes.
const MAX_SEGMENT_BYTES: usize = 255;
/// First segments of the folders that the sandbox itself provides.
const SYSTEM_FOLDERS: [&str; 13] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr",
];

/// Why a path was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path has no characters.
    #[error("the path is empty")]
    Empty,
    /// A whole path above 4,096 bytes or a name above 255.
    #[error("the path or one of its names is too long")]
    TooLong,
    /// The path has a NUL or another control character.
    #[error("`{}` is not allowed in a path", .0.escape_default())]
    Character(char),
    /// A segment is `.` or `..`.
    #[error("`{0}` has a `.` or `..` segment")]
    Dots(String),
    /// The path has two slashes in a row, or one at its end.
    #[error("`{0}` has an empty segment")]
    EmptySegment(String),
    /// The path is relative where an absolute one is required.
    #[error("`{0}` is relative, a path in the sandbox starts with `/`")]
    Relative(String),
    /// The path is absolute where a relative one is required.
    #[error("`{0}` is absolute, write it relative to the workspace")]
    Absolute(String),
    /// The path is `/` itself.
    #[error("`/` itself cannot be named")]
    Root,
    /// The path lies in a folder that the sandbox itself provides.
    #[error("`{0}` belongs to the sandbox, choose a path such as `/deps`")]
    System(String),
}

/// An absolute path in the sandbox; no `.`, no `..`, no empty segments, never `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPath(String);

impl GuestPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the standard library's type.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// This path relative to `base`: `Some(None)` if they are equal, `None` if it does not lie below.
    pub fn below(&self, base: &Self) -> Option<Option<RelPath>> {
        let rest = self.0.strip_prefix(&base.0)?;
        match rest.strip_prefix('/') {
            None if rest.is_empty() => Some(None),
            None => None,
            Some(rest) => Some(Some(RelPath(rest.to_owned()))),
        }
    }

    /// Refuses a path in a folder that the sandbox itself provides; mounts may not cover these.
    pub fn require_mountable(self) -> Result<Self, PathError> {
        let first = self.0[1..].split('/').next().unwrap_or_default();
        if SYSTEM_FOLDERS.contains(&first) {
            Err(PathError::System(self.0))
        } else {
            Ok(self)
        }
    }
}

impl FromStr for GuestPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        match text.strip_prefix('/') {
            None if text.is_empty() => Err(PathError::Empty),
            None => Err(PathError::Relative(text.to_owned())),
            Some("") => Err(PathError::Root),
            Some(rest) => check_segments(rest, text).map(|()| Self(text.to_owned())),
        }
    }
}

/// A relative path that cannot leave the folder it is joined to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

impl RelPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the standard library's type.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The segments from the top down.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl FromStr for RelPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute(text.to_owned()));
        }
        check_segments(text, text).map(|()| Self(text.to_owned()))
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_segments(segments: &str, whole: &str) -> Result<(), PathError> {
    if whole.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong);
    }
    if let Some(c) = whole.chars().find(|c| c.is_control()) {
        return Err(PathError::Character(c));
    }
    for segment in segments.split('/') {
        match segment {
            "" => return Err(PathError::EmptySegment(whole.to_owned())),
            "." | ".." => return Err(PathError::Dots(whole.to_owned())),
            segment if segment.len() > MAX_SEGMENT_BYTES => return Err(PathError::TooLong),
            _ => {}
        }
    }
    Ok(())
}

text_type!(
    GuestPath,
    "An absolute path inside the sandbox, without `.`, `..` or empty segments."
);
text_type!(
    RelPath,
    "A path relative to the workspace, without `.`, `..` or empty segments."
);

#[cfg(test)]
mod tests;
