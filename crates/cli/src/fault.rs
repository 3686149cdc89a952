//! Faults that occur before there is a result: a stable code, a message, the rule, a hint and the exit code.

use std::error::Error;
use std::fmt;

use ringfence_engine::{EngineOpenError, OperationError};
use ringfence_journal::RecordError;
use ringfence_store::{AdoptError, ExportError, LeaseError, QueryError};

/// Exit code: this program or the machine failed.
pub(crate) const EXIT_INTERNAL: u8 = 125;
/// Exit code: the policy refused the run before anything started.
pub(crate) const EXIT_REFUSED: u8 = 126;
/// Exit code: there is no such program or language.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;
/// Exit code: the run was cancelled by a signal or a request.
pub(crate) const EXIT_CANCELLED: u8 = 130;
/// Exit code: the reader of standard output is gone, as a shell reports SIGPIPE.
const EXIT_READER_GONE: u8 = 141;
/// Exit code: the arguments are invalid. `run` and `exec` use it too, since no program ran that could return it.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Exit code: a check failed, in commands that do not run a program with exit codes of its own.
pub(crate) const EXIT_CHECK_FAILED: u8 = 1;

/// A fault with its message for people and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliFault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) exit: u8,
}

impl CliFault {
    /// Creates a fault of this program or the machine, with exit code 125.
    pub(crate) fn internal(code: &'static str, message: impl Into<String>) -> CliFault {
        CliFault {
            code,
            message: message.into(),
            hint: None,
            rule: None,
            exit: EXIT_INTERNAL,
        }
    }

    /// Creates a fault of a policy refusal, with exit code 126.
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> CliFault {
        CliFault {
            exit: EXIT_REFUSED,
            ..CliFault::internal(code, message)
        }
    }

    /// Creates a fault for a missing program or language, with exit code 127.
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> CliFault {
        CliFault {
            exit: EXIT_NOT_FOUND,
            ..CliFault::internal(code, message)
        }
    }

    /// Creates a fault without a message, since the reader of standard output is gone.
    pub(crate) fn reader_gone() -> CliFault {
        CliFault {
            exit: EXIT_READER_GONE,
            ..CliFault::internal("output.closed", "")
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> CliFault {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_rule(mut self, rule: impl Into<String>) -> CliFault {
        self.rule = Some(rule.into());
        self
    }

    pub(crate) fn with_exit(mut self, exit: u8) -> CliFault {
        self.exit = exit;
        self
    }

    fn with_optional_hint(mut self, hint: Option<&str>) -> CliFault {
        self.hint = hint.map(str::to_owned);
        self
    }
}

impl fmt::Display for CliFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Formats an error and all its sources on one line.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.downcast_ref().map_or_else(|| cause.to_string(), io_error_text);
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Formats a system error without its number.
pub(crate) fn io_error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error ").next().unwrap_or(&text);
    let mut letters = plain.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

pub(crate) fn runtime_fault(error: &std::io::Error) -> CliFault {
    CliFault::internal("start.runtime", format!("cannot start: {}", io_error_text(error)))
}

impl From<ringfence_store::OpenStoreError> for CliFault {
    fn from(error: ringfence_store::OpenStoreError) -> CliFault {
        use ringfence_store::OpenStoreError as Store;
        let fault = CliFault::internal(error.code(), error_chain(&error)).with_optional_hint(error.hint());
        match &error {
            Store::Exposed { path, .. } => {
                let path = path.display();
                fault.with_hint(format!(
                    "run `chmod go-rwx {path}`, or name a folder of its own by `RINGFENCE_HOME`"
                ))
            }
            Store::Sink(_) => fault.with_hint("look at `audit.sinks` in `ringfence.yaml`"),
            _ if fault.hint.is_none() => fault.with_hint("choose another data folder with `RINGFENCE_HOME`"),
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

impl From<EngineOpenError> for CliFault {
    fn from(error: EngineOpenError) -> CliFault {
        match error {
            EngineOpenError::Store(error) => error.into(),
            EngineOpenError::Sink(error) => CliFault::internal(
                "store.sink",
                format!("cannot use an audit sink: {}", error_chain(&error)),
            )
            .with_hint("look at `audit.sinks` in `ringfence.yaml`"),
            EngineOpenError::Lease(error) => error.into(),
            EngineOpenError::Backend(error) => launch_fault(&error),
            EngineOpenError::Sweep(error) => CliFault::internal(
                "store.sweep",
                format!("cannot sweep after a dead process: {}", error_chain(&error)),
            ),
            EngineOpenError::Data(error) => {
                CliFault::internal("data.unseen", error_chain(&error)).with_hint("look at `data.pii` of the policy")
            }
        }
    }
}

impl From<OperationError> for CliFault {
    fn from(error: OperationError) -> CliFault {
        let rule = error.rule();
        let fault = match error.code() {
            code @ "language.missing" => {
                CliFault::not_found(code, error.missing_python().unwrap_or_else(|| error.chain()))
            }
            code if error.is_client_error() => CliFault::refused(code, error.chain()),
            code => CliFault::internal(code, error.chain()),
        };
        CliFault { rule, ..fault }.with_optional_hint(error.hint())
    }
}

/// Converts the reason why no sandbox starts into a fault.
pub(crate) fn launch_fault(error: &ringfence_sandbox::BackendLaunchError) -> CliFault {
    CliFault::internal("sandbox.launch", error_chain(error))
        .with_hint("`ringfence doctor` shows what is missing and how to get it")
}

impl From<RecordError> for CliFault {
    fn from(error: RecordError) -> CliFault {
        CliFault::internal(error.code(), error_chain(&error)).with_optional_hint(error.hint())
    }
}

impl From<QueryError> for CliFault {
    fn from(error: QueryError) -> CliFault {
        let code = error.code();
        let fault = CliFault::internal(code, error_chain(&error));
        match code {
            "store.damaged" => fault
                .with_hint("run `ringfence audit verify`, then restore the data folder from a copy or move it away"),
            _ => fault,
        }
    }
}

impl From<LeaseError> for CliFault {
    fn from(error: LeaseError) -> CliFault {
        CliFault::internal("store.lease", error_chain(&error))
            .with_hint("choose another data folder with `RINGFENCE_HOME`")
    }
}

impl From<ExportError> for CliFault {
    fn from(error: ExportError) -> CliFault {
        match error {
            ExportError::Read(error) => error.into(),
            ExportError::Write(error) => crate::print::write_fault(&error),
        }
    }
}

impl From<AdoptError> for CliFault {
    fn from(error: AdoptError) -> CliFault {
        CliFault::internal("session.adopt", error_chain(&error))
    }
}
