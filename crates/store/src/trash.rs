//! The trash of the data folder: what is removed moves there at once, and goes in steps, however long that takes.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Names that are tried for a folder in the trash.
const MAX_NAMES: u32 = 64;

/// The folder from which others are removed in steps.
#[derive(Debug, Clone)]
pub struct Trash(PathBuf);

impl Trash {
    /// The trash of a data folder.
    pub fn new(home: &Path) -> Trash {
        Trash(home.join("trash"))
    }

    /// The folder of what is to be removed.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves a folder to the trash, if it is there.
    pub fn add(&self, from: &Path) -> io::Result<()> {
        std::fs::create_dir_all(&self.0)?;
        let name = from.file_name().unwrap_or(OsStr::new("folder")).to_string_lossy();
        for attempt in 0..MAX_NAMES {
            let to = match attempt {
                0 => self.0.join(&*name),
                attempt => self.0.join(format!("{name}.{attempt}")),
            };
            match std::fs::rename(from, to) {
                // An older folder of this name is still in the trash.
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {}
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
        Err(ErrorKind::DirectoryNotEmpty.into())
    }
}
