//! Hard links: a file that is hidden under one name is hidden under its other names in the same folder too.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat, openat, statat};

use super::{FOLDER, MAX_DEPTH, ScanBudget};

/// The device and inode number of a file, whatever its name is.
type FileKey = (u64, u64);

/// The files of a folder that have more than one name.
#[derive(Debug, Default)]
pub(super) struct HardLinks {
    denied: HashSet<FileKey>,
    shown: HashMap<FileKey, Vec<String>>,
}

impl HardLinks {
    /// Adds a plain file.
    pub(super) fn add(&mut self, found: &Stat, path: &str, hidden: bool) {
        if found.st_nlink < 2 {
            return;
        }
        let inode = (found.st_dev, found.st_ino);
        if hidden {
            self.denied.insert(inode);
        } else {
            self.shown.entry(inode).or_default().push(path.to_owned());
        }
    }

    /// Adds the files of a hidden folder. An entry that cannot be inspected has no number to compare.
    pub(super) fn deny_below(&mut self, folder: &OwnedFd, name: &str, budget: &mut ScanBudget) {
        if let Ok(opened) = openat(folder, name, FOLDER, Mode::empty()) {
            self.deny_in(&opened, budget, 0);
        }
    }

    fn deny_in(&mut self, folder: &OwnedFd, budget: &mut ScanBudget, depth: usize) {
        let Ok(listed) = Dir::read_from(folder) else { return };
        for entry in listed.filter_map(Result::ok) {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if budget.spend_entry().is_err() {
                // The scan checks the budget next and refuses the folder.
                return;
            }
            let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let kind = FileType::from_raw_mode(found.st_mode);
            if kind == FileType::RegularFile {
                self.add(&found, "", true);
            } else if kind == FileType::Directory
                && depth < MAX_DEPTH
                && let Ok(opened) = openat(folder, name, FOLDER, Mode::empty())
            {
                self.deny_in(&opened, budget, depth + 1);
            }
        }
    }

    /// The names of hidden files that no glob hides.
    pub(super) fn other_names(&mut self) -> Vec<String> {
        let denied = self.denied.iter();
        denied.filter_map(|inode| self.shown.remove(inode)).flatten().collect()
    }
}
