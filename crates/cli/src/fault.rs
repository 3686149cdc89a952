//! Faults that occur before there is a result: a stable code, a message, the rule, a hint and the exit code.

use std::error::Error;
use std::fmt;

use ringfence_engine::{OpenError, RunError};
use ringfence_journal::RecordError;
use ringfence_store::{AdoptError, ExportError, LeaseError, ReadError};

/// Exit code: this program or the machine failed.
pub(crate) const OURS: u8 = 125;
/// Exit code: the policy refused the run before anything started.
pub(crate) const REFUSED: u8 = 126;
/// Exit code: there is no such program or language.
pub(crate) const NOT_FOUND: u8 = 127;
/// Exit code: the run was cancelled by a signal or a request.
pub(crate) const CANCELLED: u8 = 130;
/// Exit code: the reader of standard output is gone, as a shell reports SIGPIPE.
const READER_GONE: u8 = 141;
/// Exit code: the arguments are invalid. `run` and `exec` use it too, since no program ran that could return it.
pub(crate) const USAGE: u8 = 2;
/// Exit code: a check failed, in commands that do not run a program with exit codes of its own.
pub(crate) const NOT_HELD: u8 = 1;

/// A fault with its message for people and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) exit: u8,
}

impl Fault {
    /// Creates a fault of this program or the machine, with exit code 125.
    pub(crate) fn ours(code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
            hint: None,
            rule: None,
            exit: OURS,
        }
    }

    /// Creates a fault of a policy refusal, with exit code 126.
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            exit: REFUSED,
            ..Fault::ours(code, message)
        }
    }

    /// Creates a fault for a missing program or language, with exit code 127.
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            exit: NOT_FOUND,
            ..Fault::ours(code, message)
        }
    }

    /// Creates a fault without a message, since the reader of standard output is gone.
    pub(crate) fn reader_gone() -> Fault {
        Fault {
            exit: READER_GONE,
            ..Fault::ours("output.closed", "")
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn rule(mut self, rule: impl Into<String>) -> Fault {
        self.rule = Some(rule.into());
        self
    }

    pub(crate) fn exit(mut self, exit: u8) -> Fault {
        self.exit = exit;
        self
    }

    fn maybe_hint(mut self, hint: Option<&str>) -> Fault {
        self.hint = hint.map(str::to_owned);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Formats an error and all its sources on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.downcast_ref().map_or_else(|| cause.to_string(), reason);
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Formats a system error without its number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error ").next().unwrap_or(&text);
    let mut letters = plain.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

pub(crate) fn no_runtime(error: &std::io::Error) -> Fault {
    Fault::ours("start.runtime", format!("cannot start: {}", reason(error)))
}

impl From<ringfence_store::OpenError> for Fault {
    fn from(error: ringfence_store::OpenError) -> Fault {
        use ringfence_store::OpenError as Store;
        let fault = Fault::ours(error.code(), chain(&error)).maybe_hint(error.hint());
        match &error {
            Store::Exposed { path, .. } => {
                let path = path.display();
                fault.hint(format!(
                    "run `chmod go-rwx {path}`, or name a folder of its own by `RINGFENCE_HOME`"
                ))
            }
            Store::Sink(_) => fault.hint("look at `audit.sinks` in `ringfence.yaml`"),
            _ if fault.hint.is_none() => fault.hint("choose another data folder with `RINGFENCE_HOME`"),
            Store::Folder { .. }
            | Store::File { .. }
            | Store::NotAFile { .. }
            | Store::KeyMissing { .. }
            | Store::Key { .. }
            | Store::Entropy(_)
            | Store::Damaged { .. }
            | Store::Locked { .. }
            | Store::Full { .. }
            | Store::Version { .. }
            | Store::NotOurs { .. }
            | Store::Lost { .. }
            | Store::Database { .. } => fault,
        }
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Fault {
        match error {
            OpenError::Store(error) => error.into(),
            OpenError::Sink(error) => Fault::ours("store.sink", format!("cannot use an audit sink: {}", chain(&error)))
                .hint("look at `audit.sinks` in `ringfence.yaml`"),
            OpenError::Lease(error) => error.into(),
            OpenError::Native(error) => launch(&error),
            OpenError::Sweep(error) => Fault::ours(
                "store.sweep",
                format!("cannot sweep after a dead process: {}", chain(&error)),
            ),
            OpenError::Data(error) => {
                Fault::ours("data.unseen", chain(&error)).hint("look at `data.pii` of the policy")
            }
        }
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Fault {
        match error.code() {
            code @ "language.missing" => Fault::not_found(code, "there is no Python on this machine"),
            code if error.is_askers() => Fault::refused(code, error.chain()),
            code => Fault::ours(code, error.chain()),
        }
        .maybe_hint(error.hint())
    }
}

/// Converts the reason why no sandbox starts into a fault.
pub(crate) fn launch(error: &ringfence_sandbox::LaunchError) -> Fault {
    Fault::ours("sandbox.launch", chain(error)).hint("`ringfence doctor` shows what is missing and how to get it")
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Fault {
        Fault::ours(error.code(), chain(&error)).maybe_hint(error.hint())
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Fault {
        let code = error.code();
        let fault = Fault::ours(code, chain(&error));
        match code {
            "store.damaged" => {
                fault.hint("run `ringfence audit verify`, then restore the data folder from a copy or move it away")
            }
            _ => fault,
        }
    }
}

impl From<LeaseError> for Fault {
    fn from(error: LeaseError) -> Fault {
        Fault::ours("store.lease", chain(&error)).hint("choose another data folder with `RINGFENCE_HOME`")
    }
}

impl From<ExportError> for Fault {
    fn from(error: ExportError) -> Fault {
        match error {
            ExportError::Read(error) => error.into(),
            ExportError::Write(error) => crate::print::unwritten(&error),
        }
    }
}

impl From<AdoptError> for Fault {
    fn from(error: AdoptError) -> Fault {
        Fault::ours("session.adopt", chain(&error))
    }
}
