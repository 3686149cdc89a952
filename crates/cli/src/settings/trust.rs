//! The folders whose `ringfence.yaml` the user accepted, each with the digests of the file and of the files that it names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ringfence_disk::{FileLock, private_folder, replace_file_synced};
use serde::{Deserialize, Serialize};

use super::CliSettings;
use super::config::{CONFIG_FILE, Config, ConfigSource, read_text};
use super::named_files::NamedFiles;
use crate::fault::{CliFault, io_error_text};

const VERSION: u32 = 2;
/// The version that knew no named files: what it accepted has to be accepted again.
const VERSION_WITHOUT_FILES: u64 = 1;
const TRUST_FILE: &str = "trusted.json";

/// Whether a configuration file is accepted.
#[derive(Debug)]
pub(crate) enum TrustState {
    /// The file is accepted, with all that it names; nothing of it must be read again.
    Yes(Box<Config>),
    /// The file was never accepted.
    Never,
    /// The file was accepted with other content.
    Changed,
    /// This file, which the accepted one names, was accepted with other content.
    FileChanged(String),
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedFolders {
    version: u32,
    /// What was accepted, by folder.
    folders: BTreeMap<String, AcceptedFiles>,
}

/// The digests of an accepted file and of what it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptedFiles {
    /// The digest of the file itself.
    pub(crate) digest: String,
    /// The digest of each file that it names, by its path relative to the folder.
    pub(crate) named: BTreeMap<String, String>,
}

/// Checks whether `file` is accepted with its present content.
pub(crate) fn trust_state(file: &Path, settings: &CliSettings) -> Result<TrustState, CliFault> {
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Ok(TrustState::Unreadable("it is not a plain file".to_owned()));
    }
    let FileIdentity { folder, digest, text } = match identify_file(file) {
        Ok(identity) => identity,
        Err(fault) => return Ok(TrustState::Unreadable(fault.message)),
    };
    // Without a data folder no file was ever accepted.
    let Ok(home) = settings.home() else {
        return Ok(TrustState::Never);
    };
    let Some(known) = read_list(&home)?.folders.remove(&folder) else {
        return Ok(TrustState::Never);
    };
    if known.digest != digest {
        return Ok(TrustState::Changed);
    }
    let (folder, files) = (Path::new(&folder), NamedFiles::default());
    let source = ConfigSource {
        path: file,
        folder,
        files: &files,
    };
    let read = Config::with_named_files(&source, &text);
    // A file that changed may be the reason for the error.
    if let Some((name, _)) = files
        .digests(folder)
        .into_iter()
        .find(|(name, digest)| known.named.get(name) != Some(digest))
    {
        return Ok(TrustState::FileChanged(name));
    }
    Ok(TrustState::Yes(Box::new(read?)))
}

/// Accepts `file` and all that it names with their present content; returns the folder and the digests. A file with errors is not
/// accepted.
pub(crate) fn accept_file(file: &Path, settings: &CliSettings) -> Result<(String, AcceptedFiles), CliFault> {
    let FileIdentity { folder, digest, text } = identify_file(file)?;
    let files = NamedFiles::default();
    let source = ConfigSource {
        path: file,
        folder: Path::new(&folder),
        files: &files,
    };
    Config::with_named_files(&source, &text)?;
    if let Some(name) = files.unreadable(Path::new(&folder)) {
        let message = format!("cannot read `{name}`, which `{CONFIG_FILE}` names");
        return Err(CliFault::internal("trust.read", message).with_hint("what is accepted must be there"));
    }
    let accepted = AcceptedFiles {
        digest,
        named: files.digests(Path::new(&folder)),
    };
    add_to_list(&folder, &accepted, settings)?;
    Ok((folder, accepted))
}

fn add_to_list(folder: &str, accepted: &AcceptedFiles, settings: &CliSettings) -> Result<(), CliFault> {
    let home = settings.home()?;
    let failed = |what: &Path, error: &std::io::Error| {
        CliFault::internal(
            "trust.write",
            format!("cannot write `{}`: {}", what.display(), io_error_text(error)),
        )
        .with_hint("choose another data folder with `RINGFENCE_HOME`")
    };
    private_folder(&home).map_err(|error| failed(&home, &error))?;
    let lock_path = home.join("trusted.lock");
    // Two processes that accept files at once must not lose an entry.
    let _lock = FileLock::acquire(&lock_path).map_err(|error| failed(&lock_path, &error))?;
    let mut list = read_list(&home)?;
    list.version = VERSION;
    list.folders.insert(folder.to_owned(), accepted.clone());
    let path = home.join(TRUST_FILE);
    let text = serde_json::to_string_pretty(&list).map(|text| text + "\n");
    text.map_err(std::io::Error::from)
        .and_then(|text| replace_file_synced(&path, text.as_bytes()))
        .map_err(|error| failed(&path, &error))
}

/// The real folder of a file, and its content with the digest.
struct FileIdentity {
    folder: String,
    digest: String,
    text: String,
}

fn identify_file(file: &Path) -> Result<FileIdentity, CliFault> {
    let text = read_text(file, "trust.read")?;
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let real = fs::canonicalize(folder).map_err(|error| {
        CliFault::internal(
            "trust.read",
            format!("cannot look at `{}`: {}", folder.display(), io_error_text(&error)),
        )
    })?;
    match real.to_str() {
        Some(real) => {
            let digest = blake3::hash(text.as_bytes()).to_hex().to_string();
            Ok(FileIdentity {
                folder: real.to_owned(),
                digest,
                text,
            })
        }
        None => {
            Err(CliFault::internal("trust.read", "the folder's name is not text").with_hint("use `--config` instead"))
        }
    }
}

fn read_list(home: &Path) -> Result<TrustedFolders, CliFault> {
    let path = home.join(TRUST_FILE);
    let damaged = |why: String| {
        CliFault::internal("trust.read", format!("cannot read `{}`: {why}", path.display()))
            .with_hint("move the file away and trust your folders again")
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let list: serde_json::Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
            match list.get("version").and_then(serde_json::Value::as_u64) {
                Some(VERSION_WITHOUT_FILES) => Ok(TrustedFolders::default()),
                Some(version) if version != u64::from(VERSION) => {
                    Err(damaged(format!("version {version} is not known")))
                }
                _ => serde_json::from_value(list).map_err(|error| damaged(error.to_string())),
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(TrustedFolders::default()),
        Err(error) => Err(damaged(io_error_text(&error))),
    }
}
