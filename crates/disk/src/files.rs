//! Private files: readable by their owner only, and never half written.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// The most bytes of a file with a key.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// A file that holds a secret, if its owner alone can read it.
#[derive(Debug)]
pub enum SecretFile {
    /// There is no such file.
    Missing,
    /// Other users can read or change it, so its content is no secret.
    Exposed {
        /// Its permission bits, such as `0o644`.
        mode: u32,
    },
    /// The content; bytes that are not text are replaced, so that no key parses from them.
    Content(Zeroizing<String>),
}

/// Creates a folder, and those above it, for the owner only; one that exists stays as it is.
pub fn private_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        // Something that is no folder has the name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(io::ErrorKind::NotADirectory.into()),
        made => made,
    }
}

/// Opens a file for reading and writing, and creates it for the owner only if it is missing.
pub fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Reads a whole file, if it is no longer than `most` bytes.
pub fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at_most(&File::open(path)?, most)
}

/// Reads a file that holds a secret.
pub fn read_secret(path: &Path) -> io::Result<SecretFile> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SecretFile::Missing),
        Err(error) => return Err(error),
    };
    let mode = file.metadata()?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Ok(SecretFile::Exposed { mode });
    }
    let bytes = Zeroizing::new(read_at_most(&file, MAX_SECRET_BYTES)?);
    Ok(SecretFile::Content(Zeroizing::new(
        String::from_utf8_lossy(&bytes).into_owned(),
    )))
}

/// Replaces a file as a whole, readable by its owner only; creates its folder if needed.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(path, content)?.persist(path)?;
    Ok(())
}

/// The same, and the content is on the disk before the file has its name.
pub fn replace_file_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = write_beside(path, content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Creates a file as a whole, synced and readable by its owner only; fails with `AlreadyExists` if there is one.
pub fn create_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = write_beside(path, content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Writes a file in the same folder, which still has a temporary name.
fn write_beside(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    private_folder(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    Ok(file)
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn read_at_most(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than it can be"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
