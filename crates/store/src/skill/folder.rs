//! One version of a skill on disk: a folder that appears complete, never changes, and disappears as a whole.
//!
//! A manifest in the folder lists every file with its size and hash; the digest of a skill is the digest of that list.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringfence_journal::Hash;
use ringfence_policy::RelPath;
use serde::{Deserialize, Serialize};

use super::SkillError;

/// The file name of the manifest; no other file of a skill may have it.
pub(super) const LIST: &str = ".ringfence.json";
/// The name prefixes of a folder while it is created, and while it is removed.
const NEW: &str = ".new-";
const GONE: &str = ".gone-";
const MOST_LIST: u64 = 1 << 20;
const FORMAT: u32 = 1;

/// The files of a skill: paths in its folder, and contents.
pub(super) type Parts = Vec<(RelPath, Vec<u8>)>;

/// The manifest of a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    format: u32,
    pub(super) digest: Hash,
    pub(super) saved: Timestamp,
    files: Vec<Listed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    path: RelPath,
    bytes: u64,
    hash: Hash,
}

/// The way in which a version differs from what was saved.
#[derive(Debug)]
pub(super) struct Fault(pub(super) String);

impl List {
    pub(super) fn of(parts: &Parts, saved: Timestamp) -> List {
        let listed = |(path, content): &(RelPath, Vec<u8>)| Listed {
            path: path.clone(),
            bytes: content.len() as u64,
            hash: Hash::of(content),
        };
        let mut files: Vec<Listed> = parts.iter().map(listed).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        List {
            format: FORMAT,
            digest: digest(&files),
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

fn digest(files: &[Listed]) -> Hash {
    let mut text = String::from("ringfence skill v1\n");
    for file in files {
        // A path has no control characters, so lines are unambiguous.
        let _ = writeln!(text, "{} {} {}", file.hash, file.bytes, file.path);
    }
    Hash::of(text.as_bytes())
}

/// Reads the manifest of a version.
pub(super) fn list(folder: &Path) -> Result<List, Fault> {
    let bytes = plain(folder, LIST, None)?;
    let list: List = serde_json::from_slice(&bytes).map_err(|_| Fault(format!("`{LIST}` cannot be read")))?;
    if list.format != FORMAT || list.digest != digest(&list.files) {
        return Err(Fault(format!("`{LIST}` was changed")));
    }
    Ok(list)
}

/// Reads one file of a version and checks it against the manifest.
pub(super) fn file(folder: &Path, list: &List, path: &str) -> Result<Vec<u8>, Fault> {
    let listed = list.files.iter().find(|file| file.path.as_str() == path);
    let listed = listed.ok_or_else(|| Fault(format!("`{path}` is not in it")))?;
    let content = plain(folder, path, Some(listed.bytes))?;
    if Hash::of(&content) == listed.hash {
        Ok(content)
    } else {
        Err(Fault(format!("`{path}` was changed")))
    }
}

/// Reads all files of a version; fails if one has changed or another file is there.
pub(super) fn everything(folder: &Path, list: &List) -> Result<Parts, Fault> {
    let mut found = 0;
    walk(folder, &mut |_| found += 1).map_err(|error| unread("it", &error))?;
    if found > list.files.len() + 1 {
        return Err(Fault("it has files that were not saved with it".to_owned()));
    }
    let paths = list.paths().cloned();
    paths
        .map(|path| file(folder, list, path.as_str()).map(|content| (path, content)))
        .collect()
}

/// Reads a plain file of the expected size; without one, the manifest's limit applies.
fn plain(folder: &Path, path: &str, expected: Option<u64>) -> Result<Vec<u8>, Fault> {
    let at = folder.join(path);
    let data = fs::symlink_metadata(&at).map_err(|error| unread(path, &error))?;
    if !data.is_file() || expected.is_some_and(|expected| expected != data.len()) {
        return Err(Fault(format!("`{path}` was changed")));
    }
    let most = expected.unwrap_or(MOST_LIST);
    let mut content = Vec::new();
    let read = File::open(&at).and_then(|file| file.take(most + 1).read_to_end(&mut content));
    read.map_err(|error| unread(path, &error))?;
    if content.len() as u64 > most {
        return Err(Fault(format!("`{path}` was changed")));
    }
    Ok(content)
}

fn unread(path: &str, error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::NotFound {
        Fault(format!("`{path}` is gone"))
    } else {
        Fault(format!("`{path}` cannot be read: {error}"))
    }
}

/// Calls `see` with the size of every file below a folder, of any type; does not follow links.
fn walk(folder: &Path, see: &mut dyn FnMut(u64)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        if data.is_dir() {
            walk(&entry.path(), see)?;
        } else {
            see(if entry.file_name() == LIST { 0 } else { data.len() });
        }
    }
    Ok(())
}

/// Size of a version's files on disk in bytes.
pub(super) fn size(folder: &Path) -> Result<u64, SkillError> {
    let mut bytes = 0;
    walk(folder, &mut |size| bytes += size).map_err(failed("look at", folder))?;
    Ok(bytes)
}

/// Creates a version: everything is written and synced before the folder gets its name.
pub(super) fn make(parent: &Path, version: u32, list: &List, parts: &Parts) -> Result<(), SkillError> {
    let folder = parent.join(format!("{NEW}{version}"));
    let mut folders = vec![folder.clone()];
    create(&folder)?;
    for (path, content) in parts {
        let file = folder.join(path.as_path());
        let mut missing = Vec::new();
        let mut above = file.parent();
        while let Some(at) = above.filter(|at| !folders.iter().any(|known| known == at)) {
            missing.push(at.to_owned());
            above = at.parent();
        }
        for at in missing.into_iter().rev() {
            create(&at)?;
            folders.push(at);
        }
        put(&file, content)?;
    }
    let text = serde_json::to_vec(list).map_err(|error| SkillError::format(LIST, error.to_string()))?;
    put(&folder.join(LIST), &text)?;
    for at in folders.iter().rev() {
        let sealed = fs::set_permissions(at, Permissions::from_mode(0o500)).and_then(|()| sync(at));
        sealed.map_err(failed("write", at))?;
    }
    let place = parent.join(version.to_string());
    fs::rename(&folder, &place)
        .and_then(|()| sync(parent))
        .map_err(failed("make", &place))
}

fn create(folder: &Path) -> Result<(), SkillError> {
    DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .map_err(failed("make", folder))
}

fn put(path: &Path, content: &[u8]) -> Result<(), SkillError> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(path)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    written.map_err(failed("write", path))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes a folder: it is renamed first, so that nobody sees half of it.
pub(super) fn take_away(parent: &Path, name: &str) -> Result<(), SkillError> {
    delete_gone(parent, name)?;
    let place = parent.join(name);
    fs::rename(&place, parent.join(format!("{GONE}{name}")))
        .and_then(|()| sync(parent))
        .map_err(failed("remove", &place))?;
    delete_gone(parent, name)
}

/// Deletes a folder that was renamed for removal.
pub(super) fn delete_gone(parent: &Path, name: &str) -> Result<(), SkillError> {
    delete(&parent.join(format!("{GONE}{name}")))
}

/// The name of a folder without the removal prefix.
pub(super) fn plain_name(name: &str) -> &str {
    name.strip_prefix(GONE).unwrap_or(name)
}

/// Deletes folders that a dead process was creating or removing. The caller must hold the lock.
pub(super) fn tidy(folder: &Path) -> Result<(), SkillError> {
    for name in names(folder)? {
        if name.starts_with(NEW) || name.starts_with(GONE) {
            delete(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Deletes a folder with all its content, although it is read-only.
fn delete(folder: &Path) -> Result<(), SkillError> {
    let deleted = writable(folder).and_then(|()| fs::remove_dir_all(folder));
    match deleted {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        deleted => deleted.map_err(failed("remove", folder)),
    }
}

fn writable(folder: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            writable(&entry.path())?;
        }
    }
    Ok(())
}

/// The names in a folder, sorted; empty if there is no folder. Names that are not UTF-8 are skipped.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, SkillError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("look at", folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("look at", folder))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// The versions in a skill's folder, oldest first.
pub(super) fn versions(folder: &Path) -> Result<Vec<u32>, SkillError> {
    let names = names(folder)?;
    let number = |name: &String| name.parse().ok().filter(|number: &u32| number.to_string() == *name);
    let mut versions: Vec<u32> = names.iter().filter_map(number).collect();
    versions.sort_unstable();
    Ok(versions)
}

/// Maps an I/O error to a `SkillError` with the operation and the path.
pub(super) fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SkillError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| SkillError::File { act, path, source }
}
