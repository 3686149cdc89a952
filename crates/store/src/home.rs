//! The data folder: its layout, the signing key, and the mark beside the key.
//!
//! The key is created once, before the database; a database that exists never gets a new key.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_disk::{FileLock, SecretFile, open_private};
use ringfence_journal::{ContentHash, HeadMark, HeadSigner};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::OpenStoreError;
use crate::loss::LossCheckError;

/// A mark line is padded to this length, so that a newer line always overwrites an older one completely.
const MARK_BYTES: usize = 192;

/// The data folder, as an absolute path.
#[derive(Debug, Clone)]
pub(crate) struct Home(PathBuf);

/// Whether the database exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabasePresence {
    /// The file exists and is not empty.
    Present,
    /// There is no file, or it is empty.
    Missing,
}

impl Home {
    /// Creates the data folder and its subfolders if they are missing.
    pub(crate) fn prepare(path: &Path) -> Result<Home, OpenStoreError> {
        let home = Home::existing(path)?;
        restrict_permissions(&home.0).map_err(|source| OpenStoreError::Folder {
            path: home.0.clone(),
            source,
        })?;
        for folder in [home.0.clone(), home.keys_folder(), home.run_folder()] {
            private_folder(&folder)?;
        }
        Ok(home)
    }

    /// Uses the folder as it is, for a check that must not create anything.
    pub(crate) fn existing(path: &Path) -> Result<Home, OpenStoreError> {
        let absolute = std::path::absolute(path).map_err(|source| OpenStoreError::Folder {
            path: path.to_owned(),
            source,
        })?;
        Ok(Home(absolute))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database_path(&self) -> PathBuf {
        self.0.join("ringfence.db")
    }

    /// The folder of the leases and their sockets.
    pub(crate) fn run_folder(&self) -> PathBuf {
        self.0.join("run")
    }

    fn keys_folder(&self) -> PathBuf {
        self.0.join("keys")
    }

    fn key_path(&self) -> PathBuf {
        self.keys_folder().join("journal.key")
    }

    /// The key that wraps the keys of sessions.
    pub(crate) fn seal_key_path(&self) -> PathBuf {
        self.keys_folder().join("seal.key")
    }

    fn mark_path(&self) -> PathBuf {
        self.keys_folder().join("journal.mark")
    }

    /// Whether the database exists; checked before the key is read.
    pub(crate) fn database_presence(&self) -> Result<DatabasePresence, OpenStoreError> {
        let path = self.database_path();
        match fs::symlink_metadata(&path) {
            Ok(data) if !data.is_file() => Err(OpenStoreError::NotAFile { path }),
            Ok(data) if data.len() > 0 => Ok(DatabasePresence::Present),
            Ok(_) => Ok(DatabasePresence::Missing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DatabasePresence::Missing),
            Err(source) => Err(OpenStoreError::File { path, source }),
        }
    }

    /// Locks the creation of the database, so that only one process creates it.
    pub(crate) fn creation_lock(&self) -> Result<FileLock, OpenStoreError> {
        let path = self.0.join("create.lock");
        FileLock::acquire(&path).map_err(|source| OpenStoreError::File { path, source })
    }

    /// Creates an empty file for the database, readable by the owner only: its side files inherit the mode.
    pub(crate) fn create_database(&self) -> Result<(), OpenStoreError> {
        let path = self.database_path();
        open_private(&path)
            .map(drop)
            .map_err(|source| OpenStoreError::File { path, source })
    }

    /// The signing key; created if there is neither a key nor a database.
    pub(crate) fn signer(&self, found: DatabasePresence) -> Result<HeadSigner, OpenStoreError> {
        let path = self.key_path();
        match self.read_key()? {
            Some(signer) => Ok(signer),
            None if found == DatabasePresence::Present => Err(OpenStoreError::KeyMissing { path }),
            None => {
                self.create_key()?;
                self.read_key()?.ok_or(OpenStoreError::KeyMissing { path })
            }
        }
    }

    fn read_key(&self) -> Result<Option<HeadSigner>, OpenStoreError> {
        let path = self.key_path();
        match ringfence_disk::read_secret(&path) {
            Ok(SecretFile::Missing) => Ok(None),
            Ok(SecretFile::Exposed { mode }) => Err(OpenStoreError::Exposed { path, mode }),
            Ok(SecretFile::Content(text)) => match HeadSigner::parse(&text) {
                Ok(signer) => Ok(Some(signer)),
                Err(source) => Err(OpenStoreError::Key { path, source }),
            },
            Err(source) => Err(OpenStoreError::File { path, source }),
        }
    }

    /// Creates the key, unless another process was faster.
    fn create_key(&self) -> Result<(), OpenStoreError> {
        let path = self.key_path();
        let signer = HeadSigner::generate().map_err(OpenStoreError::Entropy)?;
        match ringfence_disk::create_file(&path, signer.to_text().as_bytes()) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(OpenStoreError::File { path, source }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The identity of the database file; `None` if it does not exist.
    pub(crate) fn database_file(&self) -> Result<Option<DatabaseFile>, MarkError> {
        let path = self.database_path();
        match fs::symlink_metadata(&path) {
            Ok(data) => Ok(Some(DatabaseFile(data.dev(), data.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MarkError::File { path, source }),
        }
    }

    /// The mark beside the key; `None` if its file is missing or empty.
    pub(crate) fn read_mark(&self) -> Result<Option<HeadMark>, MarkError> {
        let path = self.mark_path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MarkError::File { path, source }),
        };
        match read_line(&file, &path) {
            Err(MarkError::Form { .. }) => {
                // The line may be half written: the writer holds the lock.
                file.lock_shared().map_err(|source| MarkError::File {
                    path: path.clone(),
                    source,
                })?;
                read_line(&file, &path)
            }
            read => read,
        }
    }

    /// Moves the mark forward, unless another process moved it further. A missing mark is not created again: that would hide that it is
    /// missing.
    pub(crate) fn advance_mark(&self, mark: HeadMark) -> Result<(), MarkError> {
        let path = self.mark_path();
        let failed = |source| MarkError::File {
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let known: Option<HeadMark> = read_line(&file, &path)?;
        if known.is_some_and(|known| known.n >= mark.n) {
            return Ok(());
        }
        write_line(&file, &path, &mark)
    }

    /// Writes the mark of a journal without heads, unless there is a mark. It reaches the disk before any head does.
    pub(crate) fn start_mark(&self) -> Result<(), MarkError> {
        if self.read_mark().is_ok_and(|mark| mark.is_some()) {
            return Ok(());
        }
        let path = self.mark_path();
        self.update_line(&path, |file| {
            let known: Option<HeadMark> = read_line(file, &path)?;
            // Another process may have written it first and signed a head since.
            Ok(known.is_none().then(HeadMark::start))
        })
    }

    /// Sets the mark to the point where the journal continues, and syncs it to disk.
    pub(crate) fn set_mark(&self, mark: HeadMark) -> Result<(), MarkError> {
        self.update_line(&self.mark_path(), |_| Ok(Some(mark)))
    }

    /// Replaces the line of a file beside the key and syncs it, if `line` returns one while the file is locked.
    fn update_line<T: Serialize>(
        &self,
        path: &Path,
        line: impl FnOnce(&File) -> Result<Option<T>, MarkError>,
    ) -> Result<(), MarkError> {
        let failed = |source| MarkError::File {
            path: path.to_owned(),
            source,
        };
        let file = open_private(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let Some(line) = line(&file)? else { return Ok(()) };
        write_line(&file, path, &line)?;
        file.set_len(MARK_BYTES as u64).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        File::open(self.keys_folder())
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    fn boot_path(&self) -> PathBuf {
        self.keys_folder().join("journal.boot")
    }

    /// Records at the first opening after a boot that the whole journal is on the disk: it was read from there.
    pub(crate) fn note_boot(
        &self,
        last: impl FnOnce() -> Result<HeadMark, rusqlite::Error>,
    ) -> Result<(), LossCheckError> {
        let Some(boot) = current_boot_id() else { return Ok(()) };
        if self.read_boot().is_some_and(|known| known.boot == boot) {
            return Ok(());
        }
        let HeadMark { n, hash } = last()?;
        Ok(self.update_line(&self.boot_path(), |_| Ok(Some(SyncedMark { boot, n, hash })))?)
    }

    /// Records that the log was synced up to this mark, which was read before the sync.
    pub(crate) fn note_on_disk(&self, mark: HeadMark) {
        let Some(known) = self.read_boot().filter(|known| known.n < mark.n) else {
            return;
        };
        if current_boot_id().is_none_or(|boot| boot != known.boot) {
            return;
        }
        let path = self.boot_path();
        let HeadMark { n, hash } = mark;
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|source| MarkError::File {
                path: path.clone(),
                source,
            })
            .and_then(|file| write_line(&file, &path, &SyncedMark { n, hash, ..known }));
        if let Err(error) = written {
            tracing::debug!(%error, "how much of the journal is on the disk is not noted");
        }
    }

    /// The mark up to which the journal was on the disk when the machine last stopped; `None` if it has not stopped since.
    pub(crate) fn synced_before_boot(&self) -> Option<HeadMark> {
        let known = self.read_boot()?;
        let boot = current_boot_id()?;
        (known.boot != boot).then_some(HeadMark {
            n: known.n,
            hash: known.hash,
        })
    }

    fn read_boot(&self) -> Option<SyncedMark> {
        let path = self.boot_path();
        let file = File::open(&path).ok()?;
        read_line(&file, &path).ok().flatten()
    }
}

/// The identity of the database file: device and inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseFile(u64, u64);

/// The mark up to which the journal was synced, and the boot in which that was noted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SyncedMark {
    boot: String,
    n: u64,
    hash: ContentHash,
}

/// The id of the current boot.
fn current_boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Parses the line of a file beside the key; `None` if the file is empty.
fn read_line<T: DeserializeOwned>(file: &File, path: &Path) -> Result<Option<T>, MarkError> {
    let mut bytes = [0; 2 * MARK_BYTES];
    let length = file.read_at(&mut bytes, 0).map_err(|source| MarkError::File {
        path: path.to_owned(),
        source,
    })?;
    let line = bytes.get(..length).unwrap_or_default();
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(line)
        .map(Some)
        .map_err(|source| MarkError::Form {
            path: path.to_owned(),
            source,
        })
}

/// Overwrites the line of a file beside the key with one write.
fn write_line(file: &File, path: &Path, line: &impl Serialize) -> Result<(), MarkError> {
    let json = serde_json::to_string(line).map_err(|source| MarkError::Form {
        path: path.to_owned(),
        source,
    })?;
    let line = format!("{json:<width$}\n", width = MARK_BYTES - 1);
    file.write_all_at(line.as_bytes(), 0).map_err(|source| MarkError::File {
        path: path.to_owned(),
        source,
    })
}

/// Why the mark beside the key cannot be read or moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    /// The file of the mark cannot be used.
    #[error("cannot use `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The content of the file is not a mark.
    #[error("`{}` is damaged", path.display())]
    Form { path: PathBuf, source: serde_json::Error },
}

/// Removes the permissions of group and others from a data folder that they can only read; returns the previous mode. A folder with foreign
/// content may be meant for others and stays as it is; so does a folder that others can write, which does not open.
pub fn restrict_permissions(home: &Path) -> io::Result<Option<u32>> {
    let data = match fs::metadata(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        data => data?,
    };
    let mode = data.mode() & 0o7777;
    let (is_open, is_writable) = (mode & 0o077 != 0, mode & 0o022 != 0);
    if !data.is_dir() || !is_open || is_writable {
        return Ok(None);
    }
    let is_ours = |name: &&str| home.join(name).exists();
    if !["ringfence.db", "keys", "tools", "vault.json"].iter().any(is_ours) && fs::read_dir(home)?.next().is_some() {
        return Ok(None);
    }
    fs::set_permissions(home, fs::Permissions::from_mode(mode & !0o077))?;
    Ok(Some(mode & 0o777))
}

/// Ensures a folder of the owner, created if missing; refused if others could change its content.
pub(crate) fn private_folder(path: &Path) -> Result<(), OpenStoreError> {
    let failed = |source| OpenStoreError::Folder {
        path: path.to_owned(),
        source,
    };
    ringfence_disk::private_folder(path).map_err(failed)?;
    let data = fs::metadata(path).map_err(failed)?;
    if !data.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    if data.mode() & 0o022 != 0 {
        return Err(OpenStoreError::Exposed {
            path: path.to_owned(),
            mode: data.mode() & 0o777,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
