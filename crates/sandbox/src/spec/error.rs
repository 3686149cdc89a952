//! Why a policy cannot become a place on this machine: the key that asks for it, and what to do next.

use std::io;
use std::path::PathBuf;

use crate::scan::ScanError;

/// Why a policy cannot become a place here.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A host folder that does not exist or cannot be looked at.
    #[error("cannot use `{}` for `{to}`", path.display())]
    From {
        /// Which.
        path: PathBuf,

        /// Where it is inside.
        to: String,

        /// Why.
        source: io::Error,
    },
    /// What is in a host folder.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A host folder that programs could change.
    #[error("`{}` cannot be shown writable at `{to}`", path.display())]
    Writable {
        /// Which.
        path: PathBuf,

        /// Where it is inside.
        to: String,
    },
    /// A place on disk without a place to make it.
    #[error("`{path}` is larger than memory allows, and no folder was given for it")]
    NoFolder {
        /// Which.
        path: String,
    },
    /// A place below a read-only one that its host folder has no room for.
    #[error("`{path}` lies below `{outer}`, which is read-only and has no {kind} `{rest}` to put it on")]
    BelowReadOnly {
        /// Which.
        path: String,
        /// The read-only one around it.
        outer: String,
        /// What is missing there: a folder or a plain file.
        kind: &'static str,
        /// Where it is missing, below the read-only one.
        rest: String,
    },
    /// The configured interpreter.
    #[error("cannot use `{}` as Python", path.display())]
    Python {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SpecError {
    /// It with its cause, in words without the system's number.
    pub fn whole(&self) -> String {
        let Some(cause) = std::error::Error::source(self) else {
            return self.to_string();
        };
        let cause = cause.to_string();
        let words = cause.split(" (os error ").next().unwrap_or(&cause);
        let mut letters = words.chars();
        let first = letters.next().into_iter().flat_map(char::to_lowercase);
        format!("{self}: {}", first.chain(letters).collect::<String>())
    }

    /// The key of the policy or of the configuration that cannot be had.
    pub fn rule(&self) -> String {
        let rule = match self {
            SpecError::BelowReadOnly { path, .. } => return format!("fs.mounts[{path}]"),
            SpecError::Writable { .. } => "fs.mounts.access",
            SpecError::NoFolder { .. } => "fs.mounts.quota",
            SpecError::Python { .. } => "runtimes.python",
            SpecError::Scan(ScanError::Denied { .. } | ScanError::TooManyHidden { .. }) => "fs.deny",
            SpecError::From { .. }
            | SpecError::Scan(
                ScanError::Look { .. }
                | ScanError::Unreadable { .. }
                | ScanError::Name { .. }
                | ScanError::Private { .. }
                | ScanError::Kind { .. }
                | ScanError::MountBelow { .. }
                | ScanError::TooMany { .. }
                | ScanError::TooDeep { .. }
                | ScanError::TooSlow { .. },
            ) => "fs.mounts.from",
        };
        rule.to_owned()
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        const READABLE: &str =
            "name a folder that exists and that the sandbox's user may read, or hide the file by `fs.deny`";
        let hint = match self {
            SpecError::BelowReadOnly { outer, kind, .. } => {
                return format!("mount it beside `{outer}`, or make the {kind} in the host's first");
            }
            SpecError::From { .. } => READABLE,
            SpecError::Writable { .. } => "set `access: ro` and take files out with `--out`",
            SpecError::NoFolder { .. } => "use a quota of at most 256MiB",
            SpecError::Python { .. } => {
                "point `runtimes.python` at an interpreter that exists and that `fs.deny` does not hide"
            }
            SpecError::Scan(error) => match error {
                ScanError::Look { .. } | ScanError::Unreadable { .. } => READABLE,
                ScanError::Name { .. } => "rename it, or show a folder without it",
                ScanError::Denied { .. } => {
                    "what `fs.deny` names is shown to nobody: show another folder, or a copy under another name"
                }
                ScanError::Private { .. } => "show a folder beside it, or a copy of what is needed",
                ScanError::Kind { .. } => "show a folder or a plain file",
                ScanError::MountBelow { .. } => "show a folder without mounts below it, or each of them by itself",
                ScanError::TooMany { .. } | ScanError::TooManyHidden { .. } | ScanError::TooDeep { .. } => {
                    "show a smaller folder, or hide what is not needed by `fs.deny`"
                }
                ScanError::TooSlow { .. } => "show a smaller folder, with fewer globs in `fs.deny`",
            },
        };
        hint.to_owned()
    }
}
