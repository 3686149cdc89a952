//! Seals recorded data with a key per session; that key is stored in the database, wrapped by a key of the data folder. Sealed data is
//! bound to its seal context, so that it cannot be moved to another place.
//!
//! Deleting a session's key deletes its recordings: without the key, remains in unused pages of the database or in an old copy of its log
//! are unreadable. So pages need not be overwritten (`secure_delete`).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_disk::{DATA_KEY_BYTES, DataKey, SealFault, SecretFile, random_bytes};
use ringfence_journal::SessionId;
use zeroize::Zeroizing;

use crate::home::Home;

/// The version byte in front of all sealed data: another value means another version of this program.
const VERSION: u8 = 1;
const PREFIX: &str = "ringfence-seal-key-1 ";

/// Why data cannot be sealed or unsealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key file cannot be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The path of the key file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Others could read the key file.
    #[error("`{}` is open to others (mode {mode:o})", path.display())]
    Exposed {
        /// The path of the key file.
        path: PathBuf,
        /// Its permission bits, such as `0o644`.
        mode: u32,
    },
    /// There is sealed data, but the key file is missing.
    #[error("the key `{}` is missing: restore it from a copy", path.display())]
    Missing {
        /// The path where the key should be.
        path: PathBuf,
    },
    /// The file does not contain a key.
    #[error("`{}` holds no key: restore it from a copy", path.display())]
    NoKey {
        /// The path of the key file.
        path: PathBuf,
    },
    /// The key of the session was deleted, and with it everything that it sealed.
    #[error("the key of session `{session}` was deleted")]
    Deleted {
        /// The session whose key was deleted.
        session: SessionId,
    },
    /// The key does not fit, or the data was changed.
    #[error("it was changed, or the key does not fit")]
    Damaged,
    /// The data was sealed by another version of this program.
    #[error("it was kept by another version of this program (form {found}; this one knows {VERSION})")]
    Version {
        /// The version byte of the data.
        found: u8,
    },
    /// The data is too long to be sealed.
    #[error("it is too long")]
    Length,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Entropy,
}

impl SealError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            SealError::File { .. } | SealError::Missing { .. } | SealError::NoKey { .. } | SealError::Entropy => {
                "store.key"
            }
            SealError::Exposed { .. } => "store.exposed",
            SealError::Deleted { .. } => "store.deleted",
            SealError::Damaged | SealError::Length => "store.damaged",
            SealError::Version { .. } => "store.version",
        }
    }
}

/// The seal context: what sealed data belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SealContext<'a> {
    /// The wrapped key of a session.
    Key(&'a str),
    /// The request of an execution.
    Request(&'a str),
    /// The outcome of an execution.
    Outcome(&'a str),
    /// The entries of an execution in the piece of this number.
    Entries(&'a str, i64),
    /// The part of a session's aliases with this number.
    Aliases(&'a str, i64),
    /// The sealed part of an approval question.
    Question(&'a str),
    /// The note of a person's answer.
    Note(&'a str),
}

impl SealContext<'_> {
    /// The associated data of the seal; part of the storage format.
    fn associated_data(self) -> String {
        match self {
            SealContext::Key(session) => format!("key {session}"),
            SealContext::Request(execution) => format!("request {execution}"),
            SealContext::Outcome(execution) => format!("outcome {execution}"),
            SealContext::Entries(execution, n) => format!("entries {execution} {n}"),
            SealContext::Aliases(session, n) => format!("aliases {session} {n}"),
            SealContext::Question(approval) => format!("question {approval}"),
            SealContext::Note(approval) => format!("note {approval}"),
        }
    }
}

impl fmt::Display for SealContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealContext::Key(session) => write!(f, "the key of session `{session}`"),
            SealContext::Request(execution) => write!(f, "the request of execution `{execution}`"),
            SealContext::Outcome(execution) => write!(f, "the outcome of execution `{execution}`"),
            SealContext::Entries(execution, n) => write!(f, "entry {n} of execution `{execution}`"),
            SealContext::Aliases(session, n) => write!(f, "part {n} of the aliases of session `{session}`"),
            SealContext::Question(approval) => write!(f, "the question `{approval}`"),
            SealContext::Note(approval) => write!(f, "the note of `{approval}`"),
        }
    }
}

/// A key that seals and unseals data of one version in its context.
#[derive(Debug)]
pub(crate) struct SealingKey(DataKey);

impl SealingKey {
    fn new(bytes: &[u8]) -> Result<SealingKey, SealError> {
        Ok(SealingKey(DataKey::new(bytes)?))
    }

    /// Seals the concatenated parts behind the version.
    pub(crate) fn seal(&self, place: SealContext<'_>, parts: &[&[u8]]) -> Result<Vec<u8>, SealError> {
        let version: &[u8] = &[VERSION];
        let parts: Vec<&[u8]> = std::iter::once(version).chain(parts.iter().copied()).collect();
        Ok(self.0.seal(&place.associated_data(), &parts)?)
    }

    /// Unseals data that was sealed in this context.
    pub(crate) fn unseal(&self, place: SealContext<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let mut body = self.0.unseal(&place.associated_data(), sealed)?;
        match body.first() {
            Some(&VERSION) => {}
            Some(&found) => return Err(SealError::Version { found }),
            None => return Err(SealError::Damaged),
        }
        body.drain(..1);
        Ok(body)
    }
}

impl From<SealFault> for SealError {
    fn from(fault: SealFault) -> SealError {
        match fault {
            SealFault::Damaged => SealError::Damaged,
            SealFault::Length => SealError::Length,
            SealFault::Entropy => SealError::Entropy,
        }
    }
}

/// The key of the data folder, read at first use. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SealKeyring {
    path: PathBuf,
    key: Arc<Mutex<Option<Arc<SealingKey>>>>,
}

/// What happens if the key of the data folder is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingKey {
    Create,
    Refuse,
}

impl SealKeyring {
    pub(crate) fn new(home: &Home) -> SealKeyring {
        SealKeyring {
            path: home.seal_key_path(),
            key: Arc::default(),
        }
    }

    fn folder_key(&self, absent: MissingKey) -> Result<Arc<SealingKey>, SealError> {
        let mut known = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*known {
            return Ok(Arc::clone(key));
        }
        let missing = || SealError::Missing {
            path: self.path.clone(),
        };
        let bytes = match (read_key(&self.path)?, absent) {
            (Some(bytes), _) => bytes,
            (None, MissingKey::Refuse) => return Err(missing()),
            (None, MissingKey::Create) => {
                create_key(&self.path)?;
                // Another process may have created it first: its key counts.
                read_key(&self.path)?.ok_or_else(missing)?
            }
        };
        let key = Arc::new(SealingKey::new(bytes.as_slice())?);
        *known = Some(Arc::clone(&key));
        Ok(key)
    }

    /// Creates a key for a session; returns it with its wrapped form for storage.
    pub(crate) fn create_session_key(
        &self,
        session: SessionId,
        absent: MissingKey,
    ) -> Result<(SealingKey, Vec<u8>), SealError> {
        let bytes = random_bytes::<DATA_KEY_BYTES>()?;
        let wrapped = self
            .folder_key(absent)?
            .seal(SealContext::Key(&session.to_string()), &[bytes.as_slice()])?;
        Ok((SealingKey::new(bytes.as_slice())?, wrapped))
    }

    /// Unwraps a session's stored key.
    pub(crate) fn unwrap_session_key(&self, session: SessionId, wrapped: &[u8]) -> Result<SealingKey, SealError> {
        let bytes = self
            .folder_key(MissingKey::Refuse)?
            .unseal(SealContext::Key(&session.to_string()), wrapped)?;
        SealingKey::new(bytes.as_slice())
    }
}

fn read_key(path: &Path) -> Result<Option<Zeroizing<[u8; DATA_KEY_BYTES]>>, SealError> {
    let text = match ringfence_disk::read_secret(path) {
        Ok(SecretFile::Content(text)) => text,
        Ok(SecretFile::Missing) => return Ok(None),
        Ok(SecretFile::Exposed { mode }) => {
            let path = path.to_owned();
            return Err(SealError::Exposed { path, mode });
        }
        Err(source) => {
            let path = path.to_owned();
            return Err(SealError::File { path, source });
        }
    };
    let digits = text.strip_prefix(PREFIX).map(str::trim_ascii_end);
    match digits.and_then(parse_hex_key) {
        Some(key) => Ok(Some(key)),
        None => Err(SealError::NoKey { path: path.to_owned() }),
    }
}

/// Creates the key, unless another process was faster.
fn create_key(path: &Path) -> Result<(), SealError> {
    use fmt::Write as _;
    let bytes = random_bytes::<DATA_KEY_BYTES>()?;
    let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * DATA_KEY_BYTES + 1));
    text.push_str(PREFIX);
    for byte in bytes.iter() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    match ringfence_disk::create_file(path, text.as_bytes()) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            let path = path.to_owned();
            Err(SealError::File { path, source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn parse_hex_key(text: &str) -> Option<Zeroizing<[u8; DATA_KEY_BYTES]>> {
    let digits = text.as_bytes();
    if digits.len() != 2 * DATA_KEY_BYTES {
        return None;
    }
    let mut bytes = Zeroizing::new([0; DATA_KEY_BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
