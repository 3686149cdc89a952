//! A skill as a folder: read without following links, written only to a new path.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::super::folder::Parts;
use super::sack::{Sack, Unfit, shown_as};

/// The greatest depth of nested folders.
const DEPTH: usize = 16;

pub(super) fn read(folder: &Path) -> Result<Sack, Unfit> {
    let mut sack = Sack::default();
    below(folder, folder, DEPTH, &mut sack)?;
    Ok(sack)
}

fn below(top: &Path, folder: &Path, depth: usize, sack: &mut Sack) -> Result<(), Unfit> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Unfit(format!("it has more than {DEPTH} folders in one another")));
    };
    let shown = |path: &Path| shown_as(&path.strip_prefix(top).unwrap_or(path).to_string_lossy());
    let unread = |path: &Path, error: &io::Error| Unfit(format!("{} cannot be read: {error}", shown(path)));
    for entry in fs::read_dir(folder).map_err(|error| unread(folder, &error))? {
        let path = entry.map_err(|error| unread(folder, &error))?.path();
        let name = path.strip_prefix(top).unwrap_or(&path);
        let Some(known) = sack.name(name.as_os_str().as_bytes())? else {
            continue;
        };
        let data = fs::symlink_metadata(&path).map_err(|error| unread(&path, &error))?;
        if data.is_dir() {
            below(top, &path, depth, sack)?;
            continue;
        }
        if !data.is_file() {
            return Err(Unfit(format!("{} is neither a plain file nor a folder", shown(&path))));
        }
        let file = File::open(&path).map_err(|error| unread(&path, &error))?;
        let opened = file.metadata().map_err(|error| unread(&path, &error))?;
        // The opened file must be the one that was checked, even if somebody swaps it in between.
        if (opened.dev(), opened.ino()) != (data.dev(), data.ino()) {
            return Err(Unfit(format!("{} changes while it is read", shown(&path))));
        }
        sack.put(known, file)?;
    }
    Ok(())
}

/// Creates a folder; fails if it already exists.
pub(super) fn write(folder: &Path, parts: &Parts) -> io::Result<()> {
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
