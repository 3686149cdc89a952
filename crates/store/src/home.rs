//! The data folder: where things lie in it, the signing key, and the mark beside the key.
//!
//! The key is made once, before the database; it is never made anew for a database that exists.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_journal::{Hash, Mark, Signer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::OpenError;
use crate::loss::CheckError;

/// A mark line is padded to this length, so that a newer one always covers an older one.
const MARK_BYTES: usize = 192;

/// The data folder.
#[derive(Debug, Clone)]
pub(crate) struct Home(PathBuf);

/// How much of the database is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A file with something in it.
    Database,
    /// No file, or an empty one.
    Nothing,
}

impl Home {
    /// Makes the folder and its parts where they are missing.
    pub(crate) fn prepare(path: &Path) -> Result<Home, OpenError> {
        let home = Home::unprepared(path)?;
        close_to_others(&home.0).map_err(|source| OpenError::Folder {
            path: home.0.clone(),
            source,
        })?;
        for folder in [home.0.clone(), home.keys(), home.run()] {
            private_folder(&folder)?;
        }
        Ok(home)
    }

    /// The same folder as it is, for a check that must not create anything.
    pub(crate) fn unprepared(path: &Path) -> Result<Home, OpenError> {
        let absolute = std::path::absolute(path).map_err(|source| OpenError::Folder {
            path: path.to_owned(),
            source,
        })?;
        Ok(Home(absolute))
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("ringfence.db")
    }

    /// Where leases and their sockets lie.
    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    fn key(&self) -> PathBuf {
        self.keys().join("journal.key")
    }

    /// The key that wraps the keys of sessions.
    pub(crate) fn seal_key(&self) -> PathBuf {
        self.keys().join("seal.key")
    }

    fn mark(&self) -> PathBuf {
        self.keys().join("journal.mark")
    }

    /// Whether the database is there; asked before the key is looked for.
    pub(crate) fn found(&self) -> Result<Found, OpenError> {
        let path = self.database();
        match fs::symlink_metadata(&path) {
            Ok(data) if !data.is_file() => Err(OpenError::NotAFile { path }),
            Ok(data) if data.len() > 0 => Ok(Found::Database),
            Ok(_) => Ok(Found::Nothing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(source) => Err(OpenError::File { path, source }),
        }
    }

    /// Held while the database is made, so that two processes do not make it at once.
    pub(crate) fn creation_lock(&self) -> Result<File, OpenError> {
        let path = self.0.join("create.lock");
        let lock = private_file(&path).and_then(|file| file.lock().map(|()| file));
        lock.map_err(|source| OpenError::File { path, source })
    }

    /// An empty file for the database, readable by the owner only: its side files inherit that.
    pub(crate) fn create_database(&self) -> Result<(), OpenError> {
        let path = self.database();
        private_file(&path)
            .map(drop)
            .map_err(|source| OpenError::File { path, source })
    }

    /// The signing key; made now if there is neither key nor database.
    pub(crate) fn signer(&self, found: Found) -> Result<Signer, OpenError> {
        let path = self.key();
        match self.read_key()? {
            Some(signer) => Ok(signer),
            None if found == Found::Database => Err(OpenError::KeyMissing { path }),
            None => {
                self.create_key()?;
                self.read_key()?.ok_or(OpenError::KeyMissing { path })
            }
        }
    }

    fn read_key(&self) -> Result<Option<Signer>, OpenError> {
        let path = self.key();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let data = fs::metadata(&path).map_err(|source| OpenError::File {
                    path: path.clone(),
                    source,
                })?;
                if data.mode() & 0o077 != 0 {
                    return Err(OpenError::Exposed {
                        path,
                        mode: data.mode() & 0o777,
                    });
                }
                match Signer::parse(&text) {
                    Ok(signer) => Ok(Some(signer)),
                    Err(source) => Err(OpenError::Key { path, source }),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OpenError::File { path, source }),
        }
    }

    /// Written whole under another name, then given its own unless somebody was faster.
    fn create_key(&self) -> Result<(), OpenError> {
        let path = self.key();
        let failed = |source| OpenError::File {
            path: path.clone(),
            source,
        };
        let signer = Signer::generate().map_err(OpenError::Entropy)?;
        let mut file = tempfile::NamedTempFile::new_in(self.keys()).map_err(failed)?;
        file.write_all(signer.to_text().as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(error.error)),
        }
    }

    /// Which file the database is, if it is there.
    pub(crate) fn database_file(&self) -> Result<Option<DatabaseFile>, MarkError> {
        let path = self.database();
        match fs::symlink_metadata(&path) {
            Ok(data) => Ok(Some(DatabaseFile(data.dev(), data.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MarkError::File { path, source }),
        }
    }

    /// The mark beside the key, if one was ever written.
    pub(crate) fn read_mark(&self) -> Result<Option<Mark>, MarkError> {
        let path = self.mark();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MarkError::File { path, source }),
        };
        match read_line(&file, &path) {
            Err(MarkError::Form { .. }) => {
                // Perhaps it was half written: whoever writes holds the lock.
                file.lock_shared().map_err(|source| MarkError::File {
                    path: path.clone(),
                    source,
                })?;
                read_line(&file, &path)
            }
            read => read,
        }
    }

    /// Moves the mark forward; a mark that another process moved further stays. One that is gone is not made anew: that would hide
    /// that it was.
    pub(crate) fn advance_mark(&self, mark: Mark) -> Result<(), MarkError> {
        let path = self.mark();
        let failed = |source| MarkError::File {
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let known: Option<Mark> = read_line(&file, &path)?;
        if known.is_some_and(|known| known.n >= mark.n) {
            return Ok(());
        }
        write_line(&file, &path, &mark)
    }

    /// The mark of a journal that has no head yet, unless there is one. It reaches the disk before any head does.
    pub(crate) fn start_mark(&self) -> Result<(), MarkError> {
        if self.read_mark().is_ok_and(|mark| mark.is_some()) {
            return Ok(());
        }
        let path = self.mark();
        self.put(&path, |file| {
            let known: Option<Mark> = read_line(file, &path)?;
            // Another process may have been faster, and may have signed something since.
            Ok(known.is_none().then(Mark::start))
        })
    }

    /// Puts the mark where the journal goes on, and on the disk.
    pub(crate) fn set_mark(&self, mark: Mark) -> Result<(), MarkError> {
        self.put(&self.mark(), |_| Ok(Some(mark)))
    }

    /// Puts a line into a file beside the key, and on the disk, if `line` says one while the file is locked.
    fn put<T: Serialize>(
        &self,
        path: &Path,
        line: impl FnOnce(&File) -> Result<Option<T>, MarkError>,
    ) -> Result<(), MarkError> {
        let failed = |source| MarkError::File {
            path: path.to_owned(),
            source,
        };
        let file = private_file(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let Some(line) = line(&file)? else { return Ok(()) };
        write_line(&file, path, &line)?;
        file.set_len(MARK_BYTES as u64).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        File::open(self.keys())
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    fn boot(&self) -> PathBuf {
        self.keys().join("journal.boot")
    }

    /// Notes at the first opening since the machine started that all of the journal is on the disk: it was read from there.
    pub(crate) fn begin_boot(&self, last: impl FnOnce() -> Result<Mark, rusqlite::Error>) -> Result<(), CheckError> {
        let Some(boot) = this_boot() else { return Ok(()) };
        if self.read_boot().is_some_and(|known| known.boot == boot) {
            return Ok(());
        }
        let Mark { n, hash } = last()?;
        Ok(self.put(&self.boot(), |_| Ok(Some(OnDisk { boot, n, hash })))?)
    }

    /// The database's log was synced after this mark was read.
    pub(crate) fn note_on_disk(&self, mark: Mark) {
        let Some(known) = self.read_boot().filter(|known| known.n < mark.n) else {
            return;
        };
        if this_boot().is_none_or(|boot| boot != known.boot) {
            return;
        }
        let path = self.boot();
        let Mark { n, hash } = mark;
        let written = OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|source| MarkError::File {
                path: path.clone(),
                source,
            })
            .and_then(|file| write_line(&file, &path, &OnDisk { n, hash, ..known }));
        if let Err(error) = written {
            tracing::debug!(%error, "how much of the journal is on the disk is not noted");
        }
    }

    /// How far the journal was known to be on the disk when the machine last stopped; nothing where it has not stopped since.
    pub(crate) fn reached_disk(&self) -> Option<Mark> {
        let known = self.read_boot()?;
        let boot = this_boot()?;
        (known.boot != boot).then_some(Mark {
            n: known.n,
            hash: known.hash,
        })
    }

    fn read_boot(&self) -> Option<OnDisk> {
        let path = self.boot();
        let file = File::open(&path).ok()?;
        read_line(&file, &path).ok().flatten()
    }
}

/// Which file is the database: device and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseFile(u64, u64);

/// How much of the journal was on the disk at some time after a start of the machine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnDisk {
    boot: String,
    n: u64,
    hash: Hash,
}

/// Which start of the machine this is.
fn this_boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// What a file beside the key says; nothing where it is empty.
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

/// Writes a line over an older one, in one step.
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

/// The mark beside the key cannot be read or moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    /// Its file cannot be used.
    #[error("cannot use `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Its content is not a mark.
    #[error("`{}` is damaged", path.display())]
    Form { path: PathBuf, source: serde_json::Error },
}

/// Takes the permissions of group and others from a data folder that they can only look into; answers those that it had. A folder that
/// holds something else than our data may be meant for others, and is left as it is; so is one that they can write, which does not open.
pub fn close_to_others(home: &Path) -> io::Result<Option<u32>> {
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

/// A folder of the owner's, made if missing; refused if others could change what is in it.
pub(crate) fn private_folder(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder {
        path: path.to_owned(),
        source,
    };
    let data = match fs::metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(failed)?;
            fs::metadata(path).map_err(failed)?
        }
        Err(source) => return Err(failed(source)),
    };
    if !data.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    if data.mode() & 0o022 != 0 {
        return Err(OpenError::Exposed {
            path: path.to_owned(),
            mode: data.mode() & 0o777,
        });
    }
    Ok(())
}

/// Opens a file for reading and writing, made if missing, for the owner only.
fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests;
