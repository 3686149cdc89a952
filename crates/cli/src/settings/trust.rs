//! The folders whose `ringfence.yaml` the user accepted, each with the digest of the file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CliSettings;
use super::config::read_text;
use crate::fault::{CliFault, io_error_text};

const VERSION: u32 = 1;
const TRUST_FILE: &str = "trusted.json";

/// Whether a configuration file is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustState {
    /// The file is accepted with this content, which must not be read again.
    Yes(String),
    /// The file was never accepted.
    Never,
    /// The file was accepted with other content.
    Changed,
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedFolders {
    version: u32,
    /// The digest of the accepted file, by folder.
    folders: BTreeMap<String, String>,
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
    Ok(match read_list(&home)?.folders.get(&folder) {
        Some(known) if *known == digest => TrustState::Yes(text),
        Some(_) => TrustState::Changed,
        None => TrustState::Never,
    })
}

/// Accepts `file` with its present content; returns its folder and digest.
pub(crate) fn accept_file(file: &Path, settings: &CliSettings) -> Result<(String, String), CliFault> {
    let FileIdentity { folder, digest, .. } = identify_file(file)?;
    let home = settings.home()?;
    let failed = |what: &Path, error: &std::io::Error| {
        CliFault::internal(
            "trust.write",
            format!("cannot write `{}`: {}", what.display(), io_error_text(error)),
        )
        .with_hint("choose another data folder with `RINGFENCE_HOME`")
    };
    make_private(&home).map_err(|error| failed(&home, &error))?;
    let lock_path = home.join("trusted.lock");
    // Two processes that accept files at once must not lose an entry.
    let _lock = lock_file(&lock_path).map_err(|error| failed(&lock_path, &error))?;
    let mut list = read_list(&home)?;
    list.version = VERSION;
    list.folders.insert(folder.clone(), digest.clone());
    let path = home.join(TRUST_FILE);
    write_list(&home, &path, &list).map_err(|error| failed(&path, &error))?;
    Ok((folder, digest))
}

fn lock_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.lock()?;
    Ok(file)
}

fn make_private(home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home)
}

/// Writes the list atomically.
fn write_list(home: &Path, path: &Path, list: &TrustedFolders) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(list)?;
    let mut file = tempfile::NamedTempFile::new_in(home)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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
            let list: TrustedFolders = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
            if list.version == VERSION {
                Ok(list)
            } else {
                Err(damaged(format!("version {} is not known", list.version)))
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(TrustedFolders::default()),
        Err(error) => Err(damaged(io_error_text(&error))),
    }
}
