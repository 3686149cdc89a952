//! Empties the writable places, so that the next session finds nothing of the last one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::places::SandboxPlaces;

/// With more entries than this, the places are not emptied: the sandbox is discarded instead.
const MAX_ENTRIES: usize = 4096;

/// Why a place cannot be emptied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WipeError {
    /// An entry cannot be listed or removed.
    #[error("cannot empty `{}`", path.display())]
    Step { path: PathBuf, source: io::Error },
    /// The places hold too many entries; a new sandbox is cheaper.
    #[error("more than {MAX_ENTRIES} entries were left")]
    TooMany,
}

/// Empties every writable place that exists.
pub(crate) fn empty_writable_places(places: &SandboxPlaces) -> Result<(), WipeError> {
    let mut left = MAX_ENTRIES;
    places
        .writable()
        .filter(|place| place.exists())
        .try_for_each(|place| remove_entries(&place, &mut left))
}

pub(crate) fn empty_folder(folder: &Path) -> Result<(), WipeError> {
    let mut left = MAX_ENTRIES;
    remove_entries(folder, &mut left)
}

/// Removes the content of `folder`. Links are removed and never followed.
fn remove_entries(folder: &Path, left: &mut usize) -> Result<(), WipeError> {
    let failed = |source| WipeError::Step {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        *left = left.checked_sub(1).ok_or(WipeError::TooMany)?;
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let failed = |source| WipeError::Step {
            path: path.clone(),
            source,
        };
        if entry.file_type().map_err(failed)?.is_dir() {
            remove_entries(&path, left)?;
            fs::remove_dir(&path).map_err(failed)?;
        } else {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}
