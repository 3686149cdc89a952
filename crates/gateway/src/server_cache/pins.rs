//! Pinned definitions of tools, as they were at first use.
//!
//! An unreadable pins file is an error, not an empty one: a changed tool must not pass as a new one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_catalog::Tool;
use ringfence_disk::{FileLock, read_bounded, replace_file};
use serde::{Deserialize, Serialize};

const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// How a tool's definition compares with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinComparison {
    /// It had no pin, and was pinned now.
    New,
    /// The definition matches the pin.
    Same,
    /// The definition differs from the pin.
    Changed {
        /// When the other definition was pinned.
        since: SystemTime,
    },
}

/// Why pins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The pins file cannot be read.
    #[error("cannot read the pinned tools in `{}`", path.display())]
    Read {
        /// Path of the pins file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// The pins file is damaged.
    #[error("the pinned tools in `{}` are damaged; delete the file to pin every tool anew", path.display())]
    Damaged {
        /// Path of the pins file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The pins file cannot be written.
    #[error("cannot write the pinned tools to `{}`", path.display())]
    Write {
        /// Path of the pins file.
        path: PathBuf,
        /// The error of the write.
        source: io::Error,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    digest: String,
    since: u64,
}

impl Pin {
    fn since(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.since)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinsDocument {
    version: u32,
    tools: BTreeMap<String, Pin>,
}

/// The pins in a data folder.
#[derive(Debug)]
pub(crate) struct PinStore {
    path: PathBuf,
    /// Pins that this process has read: an unchanged tool needs no file access.
    seen: Mutex<BTreeMap<String, Pin>>,
}

impl PinStore {
    pub(super) fn new(folder: &Path) -> PinStore {
        PinStore {
            path: folder.join("pins.json"),
            seen: Mutex::default(),
        }
    }

    /// Pins a tool at its first use, and compares it at every later one.
    pub(crate) fn pin(&self, tool: &Tool) -> Result<PinComparison, PinError> {
        let (name, digest) = (tool.name.as_str(), tool.digest.to_string());
        {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.get(name).is_some_and(|pin| pin.digest == digest) {
                return Ok(PinComparison::Same);
            }
        }
        let _lock = self.lock()?;
        let mut document = self.read()?;
        let answer = match document.tools.get(name) {
            Some(pin) if pin.digest == digest => PinComparison::Same,
            Some(pin) => PinComparison::Changed { since: pin.since() },
            None => {
                document.tools.insert(name.to_owned(), pin_now(digest));
                self.write(&document)?;
                PinComparison::New
            }
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = document.tools;
        Ok(answer)
    }

    /// Pins a tool's current definition.
    pub(crate) fn accept(&self, tool: &Tool) -> Result<(), PinError> {
        let _lock = self.lock()?;
        let mut document = self.read()?;
        document
            .tools
            .insert(tool.name.as_str().to_owned(), pin_now(tool.digest.to_string()));
        self.write(&document)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = document.tools;
        Ok(())
    }

    /// Returns the digest of a tool's pin, and since when it has it.
    pub(super) fn get(&self, name: &str) -> Result<Option<(String, SystemTime)>, PinError> {
        let mut document = self.read()?;
        Ok(document.tools.remove(name).map(|pin| {
            let since = pin.since();
            (pin.digest, since)
        }))
    }

    /// Returns the digest of every pin, by tool name.
    pub(crate) fn digests(&self) -> Result<BTreeMap<String, String>, PinError> {
        let pins = self.read()?.tools.into_iter();
        Ok(pins.map(|(name, pin)| (name, pin.digest)).collect())
    }

    fn lock(&self) -> Result<FileLock, PinError> {
        let path = self.path.with_extension("lock");
        FileLock::acquire(&path).map_err(|source| PinError::Write { path, source })
    }

    fn read(&self) -> Result<PinsDocument, PinError> {
        let text = match read_bounded(&self.path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PinsDocument::default()),
            Err(source) => {
                let path = self.path.clone();
                return Err(PinError::Read { path, source });
            }
        };
        serde_json::from_slice(&text).map_err(|source| PinError::Damaged {
            path: self.path.clone(),
            source,
        })
    }

    fn write(&self, document: &PinsDocument) -> Result<(), PinError> {
        serde_json::to_vec(document)
            .map_err(io::Error::from)
            .and_then(|text| replace_file(&self.path, &text))
            .map_err(|source| PinError::Write {
                path: self.path.clone(),
                source,
            })
    }
}

fn pin_now(digest: String) -> Pin {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    Pin { digest, since }
}
