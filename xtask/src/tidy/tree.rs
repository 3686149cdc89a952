//! The files of the project: what git tracks or would track, and the content of text files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::program;

/// One file, by its path from the workspace's root, with `/` between the parts.
#[derive(Debug)]
pub(super) struct ProjectFile {
    pub(super) path: String,
    /// Empty where the file is not text.
    pub(super) text: String,
}

impl ProjectFile {
    /// The folders and the name, in order.
    pub(super) fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.split('/')
    }

    pub(super) fn name(&self) -> &str {
        self.parts().next_back().unwrap_or_default()
    }

    pub(super) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether the file is a test, which size limits exclude: `tests.rs`, and all files below a `tests` folder.
    pub(super) fn is_test(&self) -> bool {
        self.name() == "tests.rs" || self.parts().any(|part| part == "tests")
    }

    pub(super) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// The word of the crate under `crates/`, or `xtask`; none for a file outside of crates.
    pub(super) fn member(&self) -> Option<&str> {
        let mut parts = self.parts();
        match parts.next()? {
            "crates" => parts.next(),
            "xtask" => Some("xtask"),
            _ => None,
        }
    }
}

/// Every file of the project, sorted by path.
#[derive(Debug)]
pub(super) struct ProjectTree {
    files: Vec<ProjectFile>,
}

impl ProjectTree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in program::project_files(root)? {
            let bytes = fs::read(root.join(&path)).with_context(|| format!("cannot read `{path}`"))?;
            let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            files.push(ProjectFile {
                path,
                text: text.unwrap_or_default(),
            });
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { files })
    }

    pub(super) fn files(&self) -> &[ProjectFile] {
        &self.files
    }

    pub(super) fn get(&self, path: &str) -> Option<&ProjectFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &ProjectFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    #[cfg(test)]
    pub(super) fn from_texts(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| ProjectFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
