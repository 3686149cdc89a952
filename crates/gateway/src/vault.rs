//! The vault: secrets in an encrypted file, each sealed separately and bound to its name, under a key that is stored
//! elsewhere.
//!
//! The file is `vault.json` in the data folder. The key is derived from `RINGFENCE_VAULT_PASSPHRASE` if that is set;
//! otherwise it is the file `vault.key` in the user's configuration folder, readable by its owner only. Names are not
//! secret, values are.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::pbkdf2;
use ringfence_disk::{
    DATA_KEY_BYTES, DataKey, FileLock, SealFault, SecretFile, random_bytes, read_bounded, read_secret,
    replace_file_synced,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::credential::{EnvironmentLookup, SecretString};

const VERSION: u32 = 1;
const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_NAME_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 64 * 1024;
const SALT_BYTES: usize = 16;
/// Rounds of the key derivation: one guess of a passphrase costs about a third of a second. Tests use fewer.
const KEY_DERIVATION_ROUNDS: u32 = if cfg!(test) { 1_000 } else { 600_000 };
/// The name that is sealed with every vault, which tells a wrong key from a damaged secret.
const CHECK_NAME: &str = "";

/// Why a secret cannot be read or stored; the error never contains one.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// A file cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operation.
        source: io::Error,
    },
    /// Other users can read the key file.
    #[error("`{}` is open to others (mode {mode:o})", path.display())]
    Exposed {
        /// Path of the key file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// A vault exists, but its key does not.
    #[error("there is no key to the vault: `{}` is missing and RINGFENCE_VAULT_PASSPHRASE is not set", .0.display())]
    NoKey(PathBuf),
    /// The key belongs to another vault, or the passphrase is wrong.
    #[error("the key does not open the vault `{}`", .0.display())]
    WrongKey(PathBuf),
    /// The vault file is damaged.
    #[error("the vault `{}` is damaged: {what}", path.display())]
    Damaged {
        /// Path of the vault file.
        path: PathBuf,
        /// The part that is damaged.
        what: String,
    },
    /// The name of a secret is invalid.
    #[error("`{0}` cannot be a name: at most 128 letters, digits and `._/-`")]
    Name(String),
    /// The value is empty or too long.
    #[error("a secret has 1 byte to 64 KiB")]
    Length,
    /// The system provided no random bytes.
    #[error("the system gave no random bytes")]
    Entropy,
}

impl VaultError {
    /// Returns what the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            VaultError::File { .. } => "look at the data folder and its permissions",
            VaultError::Exposed { .. } => {
                "take the permissions of group and others away, and renew what is in the vault"
            }
            VaultError::NoKey(_) => "restore the key, or move `vault.json` away and set the secrets again",
            VaultError::WrongKey(_) => "use the key or the passphrase that the vault was made with",
            VaultError::Damaged { .. } => "restore `vault.json` from a copy, or move it away and set the secrets again",
            VaultError::Name(_) => "choose another name, such as `github`",
            VaultError::Length => "give the secret itself, on standard input",
            VaultError::Entropy => "try again",
        }
    }
}

/// A vault that may not exist yet; clones share its key.
#[derive(Clone)]
pub struct Vault {
    file: PathBuf,
    unlock: KeySource,
    /// The last derived key, because deriving one from a passphrase is slow.
    last_key: Arc<Mutex<Option<DerivedKey>>>,
}

/// A key, with the salt that it was derived with.
struct DerivedKey {
    salt: String,
    key: Arc<DataKey>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({})", self.file.display())
    }
}

#[derive(Clone)]
enum KeySource {
    Passphrase(SecretString),
    File(PathBuf),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VaultDocument {
    version: u32,
    /// The salt of the passphrase; empty if the key is in a file.
    salt: String,
    check: String,
    secrets: BTreeMap<String, String>,
}

impl Vault {
    /// Locates the vault of a data folder; `environment` says where its key is.
    pub fn in_data_folder(home: &Path, environment: &EnvironmentLookup) -> Vault {
        let given = |name: &str| environment(name).filter(|value| !value.is_empty());
        let unlock = if let Some(passphrase) = given("RINGFENCE_VAULT_PASSPHRASE") {
            KeySource::Passphrase(SecretString::new(passphrase))
        } else {
            let folder = given("XDG_CONFIG_HOME").map(PathBuf::from);
            let folder = folder.or_else(|| given("HOME").map(|home| Path::new(&home).join(".config")));
            let folder = folder.map_or_else(|| home.to_owned(), |folder| folder.join("ringfence"));
            KeySource::File(folder.join("vault.key"))
        };
        Vault {
            file: home.join("vault.json"),
            unlock,
            last_key: Arc::default(),
        }
    }

    /// Returns the path of the vault file.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Returns the names of the secrets; needs no key.
    pub fn names(&self) -> Result<Vec<String>, VaultError> {
        let document = self.read()?;
        Ok(document.map_or_else(Vec::new, |document| document.secrets.into_keys().collect()))
    }

    /// Returns the secret of this name; `None` if there is none.
    pub fn get(&self, name: &str) -> Result<Option<SecretString>, VaultError> {
        let Some(document) = self.read()? else { return Ok(None) };
        let Some(sealed) = document.secrets.get(name) else {
            return Ok(None);
        };
        let key = self.key(&document)?;
        let value = unseal(&key, name, sealed).ok_or_else(|| self.damaged(format!("the secret `{name}`")))?;
        let text = String::from_utf8(value.to_vec()).map_err(|_| self.damaged(format!("the secret `{name}`")))?;
        Ok(Some(SecretString::new(text)))
    }

    /// Stores a secret, and replaces one of the same name.
    pub fn set(&self, name: &str, value: &SecretString) -> Result<(), VaultError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(fits) {
            return Err(VaultError::Name(name.chars().take(MAX_NAME_BYTES).collect()));
        }
        if value.reveal().is_empty() || value.reveal().len() > MAX_VALUE_BYTES {
            return Err(VaultError::Length);
        }
        let _lock = self.lock()?;
        let (mut document, key) = match self.read()? {
            Some(document) => {
                let key = self.key(&document)?;
                (document, key)
            }
            None => self.open_for_change()?,
        };
        document
            .secrets
            .insert(name.to_owned(), seal(&key, name, value.reveal())?);
        self.write(&document)
    }

    /// Removes a secret. Returns whether it existed.
    pub fn remove(&self, name: &str) -> Result<bool, VaultError> {
        let _lock = self.lock()?;
        let Some(mut document) = self.read()? else {
            return Ok(false);
        };
        let was_there = document.secrets.remove(name).is_some();
        if was_there {
            self.write(&document)?;
        }
        Ok(was_there)
    }

    fn open_for_change(&self) -> Result<(VaultDocument, Arc<DataKey>), VaultError> {
        let salt = STANDARD.encode(random_bytes::<SALT_BYTES>().map_err(seal_error)?.as_slice());
        if let KeySource::File(path) = &self.unlock
            && matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
        {
            let text =
                Zeroizing::new(STANDARD.encode(random_bytes::<DATA_KEY_BYTES>().map_err(seal_error)?.as_slice()));
            replace_file_synced(path, text.as_bytes()).map_err(|source| file_error(path, source))?;
        }
        let key = self.raw_key(&salt)?;
        let document = VaultDocument {
            version: VERSION,
            check: seal(&key, CHECK_NAME, "ringfence")?,
            salt,
            secrets: BTreeMap::new(),
        };
        Ok((document, key))
    }

    /// Returns the key, if it belongs to this vault.
    fn key(&self, document: &VaultDocument) -> Result<Arc<DataKey>, VaultError> {
        let key = self.raw_key(&document.salt)?;
        match unseal(&key, CHECK_NAME, &document.check) {
            Some(_) => Ok(key),
            None => Err(VaultError::WrongKey(self.file.clone())),
        }
    }

    fn raw_key(&self, salt: &str) -> Result<Arc<DataKey>, VaultError> {
        let mut made = self.last_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let (KeySource::Passphrase(_), Some(made)) = (&self.unlock, &*made)
            && made.salt == salt
        {
            return Ok(Arc::clone(&made.key));
        }
        let mut bytes = Zeroizing::new([0_u8; DATA_KEY_BYTES]);
        match &self.unlock {
            KeySource::Passphrase(passphrase) => {
                let rounds = NonZeroU32::new(KEY_DERIVATION_ROUNDS).unwrap_or(NonZeroU32::MIN);
                let passphrase = passphrase.reveal().as_bytes();
                pbkdf2::derive(
                    pbkdf2::PBKDF2_HMAC_SHA256,
                    rounds,
                    salt.as_bytes(),
                    passphrase,
                    &mut *bytes,
                );
            }
            KeySource::File(path) => self.key_file(path, &mut bytes)?,
        }
        let key = DataKey::new(bytes.as_slice()).map_err(|_| self.damaged("its key".to_owned()))?;
        let key = Arc::new(key);
        *made = Some(DerivedKey {
            salt: salt.to_owned(),
            key: Arc::clone(&key),
        });
        Ok(key)
    }

    fn key_file(&self, path: &Path, bytes: &mut [u8; DATA_KEY_BYTES]) -> Result<(), VaultError> {
        let text = match read_secret(path).map_err(|source| file_error(path, source))? {
            SecretFile::Content(text) => text,
            SecretFile::Missing => return Err(VaultError::NoKey(path.to_owned())),
            SecretFile::Exposed { mode } => {
                let path = path.to_owned();
                return Err(VaultError::Exposed { path, mode });
            }
        };
        let decoded = STANDARD.decode(text.trim()).map(Zeroizing::new);
        match decoded
            .ok()
            .and_then(|key| <[u8; DATA_KEY_BYTES]>::try_from(key.as_slice()).ok())
        {
            Some(key) => bytes.copy_from_slice(&key),
            None => return Err(self.damaged(format!("`{}` holds no key", path.display()))),
        }
        Ok(())
    }

    fn lock(&self) -> Result<FileLock, VaultError> {
        let path = self.file.with_extension("lock");
        FileLock::acquire(&path).map_err(|source| file_error(&path, source))
    }

    fn read(&self) -> Result<Option<VaultDocument>, VaultError> {
        let text = match read_bounded(&self.file, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file_error(&self.file, source)),
        };
        let document: VaultDocument = serde_json::from_slice(&text).map_err(|error| self.damaged(error.to_string()))?;
        if document.version != VERSION {
            return Err(self.damaged(format!("version {} is not known", document.version)));
        }
        Ok(Some(document))
    }

    fn write(&self, document: &VaultDocument) -> Result<(), VaultError> {
        serde_json::to_vec(document)
            .map_err(io::Error::from)
            .and_then(|text| replace_file_synced(&self.file, &text))
            .map_err(|source| file_error(&self.file, source))
    }

    fn damaged(&self, what: String) -> VaultError {
        let path = self.file.clone();
        VaultError::Damaged { path, what }
    }
}

fn file_error(path: &Path, source: io::Error) -> VaultError {
    let path = path.to_owned();
    VaultError::File { path, source }
}

fn seal_error(fault: SealFault) -> VaultError {
    match fault {
        SealFault::Entropy => VaultError::Entropy,
        SealFault::Length | SealFault::Damaged => VaultError::Length,
    }
}

/// Returns the sealed value as text, bound to the name.
fn seal(key: &DataKey, name: &str, value: &str) -> Result<String, VaultError> {
    let sealed = key.seal(name, &[value.as_bytes()]).map_err(seal_error)?;
    Ok(STANDARD.encode(sealed))
}

fn unseal(key: &DataKey, name: &str, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
    key.unseal(name, &STANDARD.decode(sealed).ok()?).ok()
}

#[cfg(test)]
mod tests;
