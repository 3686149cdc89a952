//! Where things are below the data folder.

use std::path::{Path, PathBuf};

use ringfence_journal::{ExecutionId, SessionId};

/// The data folder, and the paths that the engine uses below it.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    pub(crate) fn new(home: &Path) -> DataFolder {
        DataFolder(home.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The folder on disk of what a session loses when it ends.
    pub(crate) fn scratch(&self, session: SessionId) -> PathBuf {
        self.all_scratch().join(session.to_string())
    }

    /// The folder of all that is lost at the end of its session or server.
    pub(crate) fn all_scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// The folder on disk of an execution that has a sandbox of its own in a session.
    pub(crate) fn execution_scratch(&self, execution: ExecutionId) -> PathBuf {
        self.workspaces().join(execution.to_string())
    }

    /// The folder of the files that a session keeps.
    pub(crate) fn workspace(&self, session: SessionId) -> PathBuf {
        self.workspaces().join(session.to_string())
    }

    /// The folder of the files that all sessions keep.
    pub(crate) fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }

    /// The folder of the files that an execution left.
    pub(crate) fn artifacts(&self, execution: ExecutionId) -> PathBuf {
        self.0.join("artifacts").join(execution.to_string())
    }

    /// The folder of the full output of truncated results, for readers who have only what a command printed.
    pub(crate) fn results(&self, execution: ExecutionId) -> PathBuf {
        self.0.join("results").join(execution.to_string())
    }
}
