//! Why a skill is not kept, not found or not given.

use std::io;
use std::path::PathBuf;

use super::SkillScope;
use crate::OpenError;

/// What went wrong with a skill.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// A name that is none.
    #[error("`{name}` is no name of a skill: {why}")]
    Name {
        /// The text.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// There is none of that name, or none of that version.
    #[error("there is no skill `{name}`")]
    Unknown {
        /// The name, with its version where one was asked for.
        name: String,
    },
    /// A skill is not of the form that skills have.
    #[error("{what}: {why}")]
    Format {
        /// What: a file, or a key of `SKILL.md`.
        what: String,
        /// Why not.
        why: String,
    },
    /// One skill is too large.
    #[error("the skill has {what}; the most is {most}")]
    Large {
        /// How much it has.
        what: String,
        /// How much it may have.
        most: String,
    },
    /// There is no room for it.
    #[error("the {scope} scope is full: {what}; the most is {most}")]
    Quota {
        /// Whose.
        scope: SkillScope,
        /// How much it would have.
        what: String,
        /// How much it may have.
        most: String,
    },
    /// An archive or folder that is not taken in.
    #[error("`{}` is not imported: {why}", path.display())]
    Archive {
        /// The archive or folder.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// What is kept is not what was saved.
    #[error("skill `{name}` version {version} is not as it was saved: {why}")]
    Damaged {
        /// Which skill.
        name: String,
        /// Which version.
        version: u32,
        /// What is different.
        why: String,
    },
    /// Another process changes the same skills for too long.
    #[error("`{}` is held by another process", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The folder of skills cannot be used.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A file or folder cannot be used.
    #[error("cannot {act} `{}`", path.display())]
    File {
        /// What was tried.
        act: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl SkillError {
    pub(super) fn format(what: impl Into<String>, why: impl Into<String>) -> SkillError {
        SkillError::Format {
            what: what.into(),
            why: why.into(),
        }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            SkillError::Name { .. } => "skill.name",
            SkillError::Unknown { .. } => "skill.unknown",
            SkillError::Format { .. } => "skill.format",
            SkillError::Large { .. } | SkillError::Quota { .. } => "skill.quota",
            SkillError::Archive { .. } => "skill.archive",
            SkillError::Damaged { .. } => "skill.damaged",
            SkillError::Busy { .. } => "skill.busy",
            SkillError::Folder(error) => error.code(),
            SkillError::File { .. } => "skill.file",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SkillError::Name { .. } => {
                Some("give 1 to 64 lower-case letters, digits and single hyphens, such as `monthly-report`")
            }
            SkillError::Unknown { .. } => Some("`ringfence skills list` shows the names"),
            SkillError::Large { .. } => {
                Some("leave out what the program does not need, or let it read the data from a tool")
            }
            SkillError::Quota { .. } => Some("`ringfence skills rm NAME` makes room"),
            SkillError::Archive { .. } => {
                Some("pack one folder with `SKILL.md`, the program and plain files, as a folder, `.tar.gz` or `.zip`")
            }
            SkillError::Damaged { .. } => {
                Some("save or import it again, which makes a new version, or `ringfence skills rm NAME`")
            }
            SkillError::Busy { .. } => Some("try again once that process is done"),
            SkillError::Folder(error) => error.hint(),
            SkillError::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("choose another name, or remove what is there")
            }
            SkillError::Format { .. } | SkillError::File { .. } => None,
        }
    }
}
