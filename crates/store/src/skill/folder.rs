//! One version of a skill on disk: a folder that appears complete, never changes, and disappears as a whole.
//!
//! A manifest in the folder lists every file with its size and hash; the digest of a skill is the digest of that list.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringfence_journal::ContentHash;
use ringfence_policy::RelPath;
use serde::{Deserialize, Serialize};

use super::SkillError;

/// The file name of the manifest; no other file of a skill may have it.
pub(super) const MANIFEST: &str = ".ringfence.json";
/// The name prefixes of a folder while it is created, and while it is removed.
const NEW_PREFIX: &str = ".new-";
const REMOVED_PREFIX: &str = ".gone-";
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
const FORMAT: u32 = 1;

/// The files of a skill: paths in its folder, and contents.
pub(super) type SkillFiles = Vec<(RelPath, Vec<u8>)>;

/// The manifest of a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkillManifest {
    format: u32,
    pub(super) digest: ContentHash,
    pub(super) saved: Timestamp,
    files: Vec<ManifestEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEntry {
    path: RelPath,
    bytes: u64,
    hash: ContentHash,
}

/// The way in which a version differs from what was saved.
#[derive(Debug)]
pub(super) struct SkillDamage(pub(super) String);

impl SkillManifest {
    pub(super) fn new(parts: &SkillFiles, saved: Timestamp) -> SkillManifest {
        let listed = |(path, content): &(RelPath, Vec<u8>)| ManifestEntry {
            path: path.clone(),
            bytes: content.len() as u64,
            hash: ContentHash::digest(content),
        };
        let mut files: Vec<ManifestEntry> = parts.iter().map(listed).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        SkillManifest {
            format: FORMAT,
            digest: manifest_digest(&files),
            saved,
            files,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.files.iter().map(|file| &file.path)
    }
}

fn manifest_digest(files: &[ManifestEntry]) -> ContentHash {
    let mut text = String::from("ringfence skill v1\n");
    for file in files {
        // A path has no control characters, so lines are unambiguous.
        let _ = writeln!(text, "{} {} {}", file.hash, file.bytes, file.path);
    }
    ContentHash::digest(text.as_bytes())
}

/// Reads the manifest of a version.
pub(super) fn read_manifest(folder: &Path) -> Result<SkillManifest, SkillDamage> {
    let bytes = read_plain_file(folder, MANIFEST, None)?;
    let list: SkillManifest =
        serde_json::from_slice(&bytes).map_err(|_| SkillDamage(format!("`{MANIFEST}` cannot be read")))?;
    if list.format != FORMAT || list.digest != manifest_digest(&list.files) {
        return Err(SkillDamage(format!("`{MANIFEST}` was changed")));
    }
    Ok(list)
}

/// Reads one file of a version and checks it against the manifest.
pub(super) fn read_file(folder: &Path, list: &SkillManifest, path: &str) -> Result<Vec<u8>, SkillDamage> {
    let listed = list.files.iter().find(|file| file.path.as_str() == path);
    let listed = listed.ok_or_else(|| SkillDamage(format!("`{path}` is not in it")))?;
    let content = read_plain_file(folder, path, Some(listed.bytes))?;
    if ContentHash::digest(&content) == listed.hash {
        Ok(content)
    } else {
        Err(SkillDamage(format!("`{path}` was changed")))
    }
}

/// Reads all files of a version; fails if one has changed or another file is there.
pub(super) fn read_all(folder: &Path, list: &SkillManifest) -> Result<SkillFiles, SkillDamage> {
    let mut found = 0;
    walk_file_sizes(folder, &mut |_| found += 1).map_err(|error| unreadable("it", &error))?;
    if found > list.files.len() + 1 {
        return Err(SkillDamage("it has files that were not saved with it".to_owned()));
    }
    let paths = list.paths().cloned();
    paths
        .map(|path| read_file(folder, list, path.as_str()).map(|content| (path, content)))
        .collect()
}

/// Reads a plain file of the expected size; without one, the manifest's limit applies.
fn read_plain_file(folder: &Path, path: &str, expected: Option<u64>) -> Result<Vec<u8>, SkillDamage> {
    let at = folder.join(path);
    let data = fs::symlink_metadata(&at).map_err(|error| unreadable(path, &error))?;
    if !data.is_file() || expected.is_some_and(|expected| expected != data.len()) {
        return Err(SkillDamage(format!("`{path}` was changed")));
    }
    let most = expected.unwrap_or(MAX_MANIFEST_BYTES);
    let mut content = Vec::new();
    let read = File::open(&at).and_then(|file| file.take(most + 1).read_to_end(&mut content));
    read.map_err(|error| unreadable(path, &error))?;
    if content.len() as u64 > most {
        return Err(SkillDamage(format!("`{path}` was changed")));
    }
    Ok(content)
}

fn unreadable(path: &str, error: &io::Error) -> SkillDamage {
    if error.kind() == io::ErrorKind::NotFound {
        SkillDamage(format!("`{path}` is gone"))
    } else {
        SkillDamage(format!("`{path}` cannot be read: {error}"))
    }
}

/// Calls `see` with the size of every file below a folder, of any type; does not follow links.
fn walk_file_sizes(folder: &Path, see: &mut dyn FnMut(u64)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        if data.is_dir() {
            walk_file_sizes(&entry.path(), see)?;
        } else {
            see(if entry.file_name() == MANIFEST { 0 } else { data.len() });
        }
    }
    Ok(())
}

/// Size of a version's files on disk in bytes.
pub(super) fn folder_size(folder: &Path) -> Result<u64, SkillError> {
    let mut bytes = 0;
    walk_file_sizes(folder, &mut |size| bytes += size).map_err(io_failure("look at", folder))?;
    Ok(bytes)
}

/// Creates a version: everything is written and synced before the folder gets its name.
pub(super) fn create_version(
    parent: &Path,
    version: u32,
    list: &SkillManifest,
    parts: &SkillFiles,
) -> Result<(), SkillError> {
    let folder = parent.join(format!("{NEW_PREFIX}{version}"));
    let mut folders = vec![folder.clone()];
    create_folder(&folder)?;
    for (path, content) in parts {
        let file = folder.join(path.as_path());
        let mut missing = Vec::new();
        let mut above = file.parent();
        while let Some(at) = above.filter(|at| !folders.iter().any(|known| known == at)) {
            missing.push(at.to_owned());
            above = at.parent();
        }
        for at in missing.into_iter().rev() {
            create_folder(&at)?;
            folders.push(at);
        }
        write_file(&file, content)?;
    }
    let text = serde_json::to_vec(list).map_err(|error| SkillError::format(MANIFEST, error.to_string()))?;
    write_file(&folder.join(MANIFEST), &text)?;
    for at in folders.iter().rev() {
        let sealed = fs::set_permissions(at, Permissions::from_mode(0o500)).and_then(|()| sync_folder(at));
        sealed.map_err(io_failure("write", at))?;
    }
    let place = parent.join(version.to_string());
    fs::rename(&folder, &place)
        .and_then(|()| sync_folder(parent))
        .map_err(io_failure("make", &place))
}

fn create_folder(folder: &Path) -> Result<(), SkillError> {
    DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .map_err(io_failure("make", folder))
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), SkillError> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(path)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    written.map_err(io_failure("write", path))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes a folder: it is renamed first, so that nobody sees half of it.
pub(super) fn remove_folder(parent: &Path, name: &str) -> Result<(), SkillError> {
    delete_removed(parent, name)?;
    let place = parent.join(name);
    fs::rename(&place, parent.join(format!("{REMOVED_PREFIX}{name}")))
        .and_then(|()| sync_folder(parent))
        .map_err(io_failure("remove", &place))?;
    delete_removed(parent, name)
}

/// Deletes a folder that was renamed for removal.
pub(super) fn delete_removed(parent: &Path, name: &str) -> Result<(), SkillError> {
    delete_folder(&parent.join(format!("{REMOVED_PREFIX}{name}")))
}

/// The name of a folder without the removal prefix.
pub(super) fn plain_name(name: &str) -> &str {
    name.strip_prefix(REMOVED_PREFIX).unwrap_or(name)
}

/// Deletes folders that a dead process was creating or removing. The caller must hold the lock.
pub(super) fn delete_leftovers(folder: &Path) -> Result<(), SkillError> {
    for name in entry_names(folder)? {
        if name.starts_with(NEW_PREFIX) || name.starts_with(REMOVED_PREFIX) {
            delete_folder(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Deletes a folder with all its content, although it is read-only.
fn delete_folder(folder: &Path) -> Result<(), SkillError> {
    let deleted = make_writable(folder).and_then(|()| fs::remove_dir_all(folder));
    match deleted {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        deleted => deleted.map_err(io_failure("remove", folder)),
    }
}

fn make_writable(folder: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// The names in a folder, sorted; empty if there is no folder. Names that are not UTF-8 are skipped.
pub(super) fn entry_names(folder: &Path) -> Result<Vec<String>, SkillError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_failure("look at", folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_failure("look at", folder))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// The versions in a skill's folder, oldest first.
pub(super) fn versions(folder: &Path) -> Result<Vec<u32>, SkillError> {
    let names = entry_names(folder)?;
    let number = |name: &String| name.parse().ok().filter(|number: &u32| number.to_string() == *name);
    let mut versions: Vec<u32> = names.iter().filter_map(number).collect();
    versions.sort_unstable();
    Ok(versions)
}

/// Maps an I/O error to a `SkillError` with the operation and the path.
pub(super) fn io_failure(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SkillError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| SkillError::File { act, path, source }
}
