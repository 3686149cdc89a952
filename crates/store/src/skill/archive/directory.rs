//! A skill as a folder: read without following links, written only to a new path.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::super::folder::SkillFiles;
use super::reader::{ArchiveReader, UnfitArchive, printable_name};

/// The greatest depth of nested folders.
const MAX_DEPTH: usize = 16;

pub(super) fn read(folder: &Path) -> Result<ArchiveReader, UnfitArchive> {
    let mut sack = ArchiveReader::default();
    read_below(folder, folder, MAX_DEPTH, &mut sack)?;
    Ok(sack)
}

fn read_below(top: &Path, folder: &Path, depth: usize, sack: &mut ArchiveReader) -> Result<(), UnfitArchive> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(UnfitArchive(format!(
            "it has more than {MAX_DEPTH} folders in one another"
        )));
    };
    let shown = |path: &Path| printable_name(&path.strip_prefix(top).unwrap_or(path).to_string_lossy());
    let unread = |path: &Path, error: &io::Error| UnfitArchive(format!("{} cannot be read: {error}", shown(path)));
    for entry in fs::read_dir(folder).map_err(|error| unread(folder, &error))? {
        let path = entry.map_err(|error| unread(folder, &error))?.path();
        let name = path.strip_prefix(top).unwrap_or(&path);
        let Some(known) = sack.accept_name(name.as_os_str().as_bytes())? else {
            continue;
        };
        let data = fs::symlink_metadata(&path).map_err(|error| unread(&path, &error))?;
        if data.is_dir() {
            read_below(top, &path, depth, sack)?;
            continue;
        }
        if !data.is_file() {
            return Err(UnfitArchive(format!(
                "{} is neither a plain file nor a folder",
                shown(&path)
            )));
        }
        let file = File::open(&path).map_err(|error| unread(&path, &error))?;
        let opened = file.metadata().map_err(|error| unread(&path, &error))?;
        // The opened file must be the one that was checked, even if somebody swaps it in between.
        if (opened.dev(), opened.ino()) != (data.dev(), data.ino()) {
            return Err(UnfitArchive(format!("{} changes while it is read", shown(&path))));
        }
        sack.add_file(known, file)?;
    }
    Ok(())
}

/// Creates a folder; fails if it already exists.
pub(super) fn write(folder: &Path, parts: &SkillFiles) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (path, content) in parts {
        let file = folder.join(path.as_path());
        if let Some(above) = file.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(file, content)?;
    }
    Ok(())
}
