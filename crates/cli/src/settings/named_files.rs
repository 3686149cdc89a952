//! The files that a configuration names and that are read as configuration too: policies, the ceiling, `OpenAPI` documents.
//! Each is read once, so that what was compared is what is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::config::read_text;
use crate::fault::CliFault;

/// The digest of a file that cannot be read; no content has it.
const UNREADABLE: &str = "";

/// The files that one configuration named so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedFiles(Arc<Mutex<BTreeMap<PathBuf, NamedFile>>>);

/// A file as it was at its first read.
#[derive(Debug, Clone)]
struct NamedFile {
    digest: String,
    /// The text, where it was read as text.
    text: Option<String>,
}

impl NamedFiles {
    /// The text of a file: as it was read first, else as it is now.
    pub(crate) fn read_text(&self, path: &Path, code: &'static str) -> Result<String, CliFault> {
        if let Some(text) = self.known_text(path) {
            return Ok(text);
        }
        let read = read_text(path, code);
        self.insert(
            path,
            read.as_ref().ok().map(String::as_bytes),
            read.as_ref().ok().cloned(),
        );
        read
    }

    /// Notes the content of a file that somebody else reads; `None` if it cannot be read.
    pub(crate) fn note(&self, path: &Path, content: Option<&[u8]>) {
        self.insert(path, content, None);
    }

    /// The digest of each file, by its path relative to `folder`.
    pub(crate) fn digests(&self, folder: &Path) -> BTreeMap<String, String> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
        files
            .iter()
            .map(|(path, file)| (name(path), file.digest.clone()))
            .collect()
    }

    /// A file that could not be read, if there is one.
    pub(crate) fn unreadable(&self, folder: &Path) -> Option<String> {
        let mut digests = self.digests(folder).into_iter();
        digests.find(|(_, digest)| digest == UNREADABLE).map(|(name, _)| name)
    }

    fn known_text(&self, path: &Path) -> Option<String> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).and_then(|file| file.text.clone())
    }

    fn insert(&self, path: &Path, content: Option<&[u8]>, text: Option<String>) {
        let digest = content.map_or_else(
            || UNREADABLE.to_owned(),
            |content| blake3::hash(content).to_hex().to_string(),
        );
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.entry(path.to_owned()).or_insert_with(|| NamedFile {
            digest: digest.clone(),
            text: None,
        });
        if file.digest != digest {
            // It changed between two reads: no digest that was accepted fits both.
            UNREADABLE.clone_into(&mut file.digest);
        } else if file.text.is_none() {
            file.text = text;
        }
    }
}
