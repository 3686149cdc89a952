//! The file of permanent approval rules, `rules.yaml`, and the intent beside it. People may edit the file; several processes write it.
//!
//! It knows texts, not rules. An intent is written before the act that it belongs to counts, and removed once the file is replaced: what a
//! crash interrupted is completed by the next writer.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ringfence_disk::{FileLock, open_private, read_bounded, replace_file_synced};
use tokio::sync::MutexGuard;

/// Bytes of the file at most.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How long this process waits for the file lock of another one, and how often it tries.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a writer waits in this process, where each writer before it may wait for the file lock.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// Serialises the writers of this process, whatever their data folder.
static WRITE_LOCK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The rules file of a data folder.
#[derive(Debug, Clone)]
pub struct RulesFile {
    home: PathBuf,
    name: &'static str,
}

/// The modification time and size that identify a version of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RulesFileVersion(SystemTime, u64);

/// Why the file cannot be written now.
#[derive(Debug, thiserror::Error)]
pub enum RulesLockError {
    /// Others write it for too long.
    #[error("others write the rules file")]
    Busy,
    /// The lock file cannot be opened or locked.
    #[error("cannot lock the rules file")]
    File(#[source] io::Error),
}

/// Writes the file; nobody else does while it exists.
#[derive(Debug)]
pub struct RulesWriter {
    file: RulesFile,
    /// The lock against other processes.
    _lock: FileLock,
    /// The lock against other tasks of this process, in their order of arrival.
    _turn: MutexGuard<'static, ()>,
}

impl RulesFile {
    /// The file `name` in the data folder `home`.
    pub fn new(home: &Path, name: &'static str) -> RulesFile {
        RulesFile {
            home: home.to_owned(),
            name,
        }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.home.join(self.name)
    }

    /// The version of the file as it is; none where it does not exist.
    pub fn version(&self) -> Option<RulesFileVersion> {
        let found = fs::metadata(self.path()).ok()?;
        Some(RulesFileVersion(found.modified().ok()?, found.len()))
    }

    /// The text of the file; empty where it does not exist.
    pub fn read(&self) -> io::Result<String> {
        match read_bounded(&self.path(), MAX_FILE_BYTES) {
            Ok(bytes) => String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether an intent was left.
    pub fn has_intent(&self) -> bool {
        self.intent_path().exists()
    }

    /// Locks the file for writing. The wait never blocks a thread: the holder of the lock may need it.
    pub async fn lock(&self) -> Result<RulesWriter, RulesLockError> {
        let turn = tokio::time::timeout(QUEUE_TIMEOUT, WRITE_LOCK.lock()).await;
        let turn = turn.map_err(|_| RulesLockError::Busy)?;
        let path = self.home.join("run").join("rules.lock");
        let lock = async {
            loop {
                match FileLock::try_acquire(&path) {
                    Ok(Some(lock)) => return Ok(lock),
                    Ok(None) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
                    Err(error) => return Err(error),
                }
            }
        };
        let lock = tokio::time::timeout(LOCK_TIMEOUT, lock).await;
        Ok(RulesWriter {
            file: self.clone(),
            _lock: lock.map_err(|_| RulesLockError::Busy)?.map_err(RulesLockError::File)?,
            _turn: turn,
        })
    }

    fn intent_path(&self) -> PathBuf {
        self.home.join("rules.intent")
    }
}

impl RulesWriter {
    /// The file that it writes.
    pub fn file(&self) -> &RulesFile {
        &self.file
    }

    /// The intent that was left; none where there is none.
    pub fn read_intent(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.file.intent_path()) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an intent, which is on the disk when this returns.
    pub fn write_intent(&self, text: &str) -> io::Result<()> {
        replace_file_synced(&self.file.intent_path(), text.as_bytes())
    }

    /// Removes the intent, because it is completed or void.
    pub fn remove_intent(&self) -> io::Result<()> {
        fs::remove_file(self.file.intent_path())
    }

    /// Replaces the text of the file as a whole. The new text has a name of its own until it is on the disk, which no other writer uses.
    pub fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.file.path().with_extension("new");
        let mut file = open_private(&new)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.file.path())
    }
}
