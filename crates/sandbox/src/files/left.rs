//! What was not copied out, file by file, for who wanted it.

use ringfence_policy::RelPath;
use serde::Serialize;

use super::{Collected, CopyOutcome, Skipped};

/// Files that stayed in the sandbox although a folder was there for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The first of them.
    pub files: Vec<LeftFile>,
    /// How many more there are.
    pub more: u64,
}

/// A file that was not copied out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftFile {
    /// Its path below the workspace.
    pub path: String,
    /// Why it stayed.
    pub reason: &'static str,
    /// What helps.
    pub hint: &'static str,
}

impl Collected {
    /// What stays in the sandbox, file by file: first what the program wants to go out.
    pub fn left_behind(&self) -> LeftBehind {
        let is_withheld = |path: &str| self.withheld.iter().any(|(named, _)| named == path);
        let skipped = self.skipped.named().iter().filter(|(path, _)| !is_withheld(path));
        let repeated = self.skipped.named().len() - skipped.clone().count();
        let files: Vec<LeftFile> = self
            .withheld
            .iter()
            .chain(skipped)
            .map(|(path, reason)| LeftFile {
                path: path.clone(),
                reason: reason.why(),
                hint: reason.hint(),
            })
            .collect();
        let total = self.withheld.len() as u64 + self.skipped.total() - repeated as u64;
        LeftBehind {
            more: total.saturating_sub(files.len() as u64),
            files,
        }
    }

    /// Takes those files out of the list that were not copied; answers them, and the paths of those that were written.
    pub fn drop_uncopied(&mut self, outcomes: &[CopyOutcome]) -> (Skipped, Vec<RelPath>) {
        let (mut skipped, mut written) = (Skipped::default(), Vec::new());
        let mut outcomes = outcomes.iter();
        self.files.retain(|file| match outcomes.next() {
            Some(CopyOutcome::Skipped(reason)) => {
                skipped.add(file.path.as_str(), *reason);
                false
            }
            Some(CopyOutcome::Same) => true,
            Some(CopyOutcome::Copied) | None => {
                written.push(file.path.clone());
                true
            }
        });
        (skipped, written)
    }
}
