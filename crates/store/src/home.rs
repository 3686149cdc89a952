//! The data folder: where things lie in it, the signing key, and the mark beside the key.
//!
//! The key is made once, before the database; it is never made anew for a database that exists.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_journal::{Mark, Signer};

use crate::OpenError;

/// A mark line is padded to this length, so that a newer one always covers an older one.
const MARK_BYTES: usize = 128;

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
        let path = std::path::absolute(path).map_err(|source| OpenError::Folder {
            path: path.to_owned(),
            source,
        })?;
        let home = Home(path);
        for folder in [home.0.clone(), home.keys(), home.run()] {
            private_folder(&folder)?;
        }
        Ok(home)
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

    /// The mark beside the key, if one was ever written.
    pub(crate) fn read_mark(&self) -> Result<Option<Mark>, MarkError> {
        let path = self.mark();
        match File::open(&path) {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(|source| MarkError::File {
                    path: path.clone(),
                    source,
                })?;
                if text.is_empty() {
                    return Ok(None);
                }
                match serde_json::from_str(&text) {
                    Ok(mark) => Ok(Some(mark)),
                    Err(source) => Err(MarkError::Form { path, source }),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MarkError::File { path, source }),
        }
    }

    /// Moves the mark forward; a mark that another process moved further stays.
    pub(crate) fn advance_mark(&self, mark: Mark) -> Result<(), MarkError> {
        let path = self.mark();
        let failed = |source| MarkError::File {
            path: path.clone(),
            source,
        };
        let file = private_file(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        if self.read_mark()?.is_some_and(|known| known.n >= mark.n) {
            return Ok(());
        }
        let json = serde_json::to_string(&mark).map_err(|source| MarkError::Form {
            path: path.clone(),
            source,
        })?;
        let line = format!("{json:<width$}\n", width = MARK_BYTES - 1);
        file.write_all_at(line.as_bytes(), 0).map_err(failed)
    }
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
