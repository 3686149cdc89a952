//! The errors of skills: saving, finding, importing and exporting.

use std::io;
use std::path::PathBuf;

use super::SkillScope;
use crate::OpenStoreError;

/// Why an operation on a skill failed.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// The name is not a valid skill name.
    #[error("`{name}` is no name of a skill: {why}")]
    Name {
        /// The text that was given.
        name: String,
        /// The rule that the name breaks.
        why: &'static str,
    },
    /// No skill has this name, or it has no such version.
    #[error("there is no skill `{name}`")]
    Unknown {
        /// The name, with its version if one was requested.
        name: String,
    },
    /// A skill does not have the format of skills.
    #[error("{what}: {why}")]
    Format {
        /// The file or the key of `SKILL.md` concerned.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A single skill is too large.
    #[error("the skill has {what}; the most is {most}")]
    Large {
        /// How much the skill has.
        what: String,
        /// The most that it may have.
        most: String,
    },
    /// The quota of the scope is used up.
    #[error("the {scope} scope is full: {what}; the most is {most}")]
    Quota {
        /// The scope whose quota is used up.
        scope: SkillScope,
        /// How much the scope would hold.
        what: String,
        /// The most that it may hold.
        most: String,
    },
    /// An archive or folder cannot be imported.
    #[error("`{}` is not imported: {why}", path.display())]
    Archive {
        /// The path of the archive or folder.
        path: PathBuf,
        /// Why it cannot be imported.
        why: String,
    },
    /// A saved version has changed since it was saved.
    #[error("skill `{name}` version {version} is not as it was saved: {why}")]
    Damaged {
        /// The name of the skill.
        name: String,
        /// The number of the version.
        version: u32,
        /// What has changed in it.
        why: String,
    },
    /// Another process holds the lock of the same skills for too long.
    #[error("`{}` is held by another process", path.display())]
    Busy {
        /// The path of the lock file.
        path: PathBuf,
    },
    /// The folder of skills cannot be used.
    #[error(transparent)]
    Folder(#[from] OpenStoreError),
    /// A file or folder cannot be used.
    #[error("cannot {act} `{}`", path.display())]
    File {
        /// The attempted operation, as a verb for the message.
        act: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the file system.
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

    /// What a person can do about it, if anything.
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
