//! Places below read-only ones: the host's folder must hold a mount point, because none can be made there.

use std::fs::FileType;
use std::path::Path;

use ringfence_policy::{FileAccess, FsPolicy, RelPath};

use super::SpecError;

/// Refuses a place below a read-only one whose host folder cannot hold a mount point for it.
pub(super) fn check_room(fs: &FsPolicy) -> Result<(), SpecError> {
    for mount in &fs.mounts {
        let around = fs.mounts.iter().filter_map(|outer| {
            let rest = mount.path.below(&outer.path).flatten()?;
            Some((outer, rest))
        });
        let Some((outer, rest)) = around.max_by_key(|(outer, _)| outer.path.as_str().len()) else {
            continue;
        };
        let Some(shown) = outer.from.as_deref().filter(|_| outer.access == FileAccess::Read) else {
            continue;
        };
        let is_folder = mount.from.as_deref().is_none_or(Path::is_dir);
        if !has_entry(shown, &rest, is_folder) {
            return Err(SpecError::BelowReadOnly {
                path: mount.path.to_string(),
                outer: outer.path.to_string(),
                kind: if is_folder { "folder" } else { "plain file" },
                rest: rest.to_string(),
            });
        }
    }
    Ok(())
}

/// Whether a host folder has a folder, or a plain file, at a path without links.
fn has_entry(folder: &Path, path: &RelPath, is_folder: bool) -> bool {
    let mut place = folder.to_owned();
    let mut found: Option<FileType> = None;
    for segment in path.segments() {
        place.push(segment);
        let Ok(next) = std::fs::symlink_metadata(&place) else {
            return false;
        };
        if found.is_some_and(|outer| !outer.is_dir()) {
            return false;
        }
        found = Some(next.file_type());
    }
    found.is_some_and(|kind| if is_folder { kind.is_dir() } else { kind.is_file() })
}
