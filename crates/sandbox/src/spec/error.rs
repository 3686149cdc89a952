//! Why a policy cannot become a sandbox on this machine: the key that asks for it, and what to do next.

use std::io;
use std::path::PathBuf;

use crate::scan::ScanError;

/// Why a policy cannot become a sandbox here.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A host path does not exist or cannot be inspected.
    #[error("cannot use `{}` for `{to}`", path.display())]
    From {
        /// The path on the host.
        path: PathBuf,

        /// The path inside the sandbox.
        to: String,

        /// The error of the operating system.
        source: io::Error,
    },
    /// The scan of a host folder failed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A host folder would be writable for programs.
    #[error("`{}` cannot be shown writable at `{to}`", path.display())]
    Writable {
        /// The folder on the host.
        path: PathBuf,

        /// The path inside the sandbox.
        to: String,
    },
    /// A writable place is too large for memory, and there is no folder on disk to make it in.
    #[error("`{path}` is larger than memory allows, and no folder was given for it")]
    NoFolder {
        /// The path of the place inside the sandbox.
        path: String,
    },
    /// A place lies below a read-only one whose host folder cannot hold a mount point for it.
    #[error("`{path}` lies below `{outer}`, which is read-only and has no {kind} `{rest}` to put it on")]
    BelowReadOnly {
        /// The path of the place inside the sandbox.
        path: String,
        /// The path of the read-only place around it.
        outer: String,
        /// What is missing there: a folder or a plain file.
        kind: &'static str,
        /// Where it is missing, below the read-only place.
        rest: String,
    },
    /// The configured interpreter cannot be used.
    #[error("cannot use `{}` as Python", path.display())]
    Python {
        /// The path of the interpreter, as configured.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl SpecError {
    /// The error with its cause, without the system's error number.
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

    /// The key of the policy or of the configuration that cannot be met.
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

    /// What the user can do about it.
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
