//! Locks between processes: one process has a lock until it drops it or dies.
//!
//! A lock is on a file, not on a name. Where the file was removed or replaced, its lock excludes nobody, and does not count.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::files::{folder_of, open_private, private_folder};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The lock of a file that has its name; released when dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits for the lock; creates its file, and the folder of that, if they are missing.
    pub fn acquire(path: &Path) -> io::Result<FileLock> {
        loop {
            let file = open_lock_file(path)?;
            file.lock()?;
            if has_name(&file, path)? {
                return Ok(FileLock { file });
            }
        }
    }

    /// Waits for the lock until `timeout` has passed; `None` if others held it all that time.
    pub fn acquire_within(path: &Path, timeout: Duration) -> io::Result<Option<FileLock>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(lock) = FileLock::try_acquire(path)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes the lock if nobody has it; creates its file, and the folder of that, if they are missing.
    pub fn try_acquire(path: &Path) -> io::Result<Option<FileLock>> {
        lock_if_free(open_lock_file(path)?, path)
    }

    /// Takes the lock of a file that is there, if nobody has it.
    pub fn try_existing(path: &Path) -> io::Result<Option<FileLock>> {
        match File::open(path) {
            Ok(file) => lock_if_free(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The locked file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    private_folder(folder_of(path))?;
    open_private(path)
}

fn lock_if_free(file: File, path: &Path) -> io::Result<Option<FileLock>> {
    match file.try_lock() {
        Ok(()) if has_name(&file, path)? => Ok(Some(FileLock { file })),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the file with this name is still the opened one.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(identity(named) == identity(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
