//! The files that were not copied out, one by one, for the caller.

use ringfence_policy::RelPath;
use serde::Serialize;

use super::{CollectedFiles, CopyOutcome, SkippedFiles};

/// Files that stayed in the sandbox although the caller gave a folder for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UncopiedFiles {
    /// The first of them, with their reasons.
    pub files: Vec<UncopiedFile>,
    /// The number of files that are not in the list.
    pub more: u64,
}

/// A file that was not copied out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UncopiedFile {
    /// The path below the workspace.
    pub path: String,
    /// Why the file was not copied, as a phrase.
    pub reason: &'static str,
    /// What the program can do so that the file can leave.
    pub hint: &'static str,
}

impl CollectedFiles {
    /// The files that stay in the sandbox, one by one: those that the program emitted come first.
    pub fn uncopied_files(&self) -> UncopiedFiles {
        let is_withheld = |path: &str| self.withheld.iter().any(|(named, _)| named == path);
        let skipped = self.skipped.named().iter().filter(|(path, _)| !is_withheld(path));
        let repeated = self.skipped.named().len() - skipped.clone().count();
        let files: Vec<UncopiedFile> = self
            .withheld
            .iter()
            .chain(skipped)
            .map(|(path, reason)| UncopiedFile {
                path: path.clone(),
                reason: reason.description(),
                hint: reason.hint(),
            })
            .collect();
        let total = self.withheld.len() as u64 + self.skipped.total() - repeated as u64;
        UncopiedFiles {
            more: total.saturating_sub(files.len() as u64),
            files,
        }
    }

    /// Removes the files that were not copied from the list. Returns them, and the paths of those that were written.
    pub fn drop_uncopied(&mut self, outcomes: &[CopyOutcome]) -> (SkippedFiles, Vec<RelPath>) {
        let (mut skipped, mut written) = (SkippedFiles::default(), Vec::new());
        let mut outcomes = outcomes.iter();
        self.files.retain(|file| match outcomes.next() {
            Some(CopyOutcome::Skipped(reason)) => {
                skipped.add(file.path.as_str(), *reason);
                false
            }
            Some(CopyOutcome::Unchanged) => true,
            Some(CopyOutcome::Copied) | None => {
                written.push(file.path.clone());
                true
            }
        });
        (skipped, written)
    }
}
