//! Operation errors: why an execution has no result, with a stable code and a hint.

use ringfence_journal::{NoEntropy, RecordError};
use ringfence_sandbox::{BackendLaunchError, CollectError, PoolError, PutError};
use ringfence_store::{AdoptError, LeaseError, QueryError};

use crate::recorded_request::RecordedRequestError;
use crate::refusal::RunRefusal;

/// Why an execution has no result. Failures of the program itself are results, not errors.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The journal could not record an event, so the operation did not happen.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The sandbox could not be launched.
    #[error(transparent)]
    Launch(#[from] BackendLaunchError),
    /// The pool could not supply a sandbox.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The execution failed inside the sandbox backend.
    #[error(transparent)]
    Run(#[from] ringfence_sandbox::ExecutionError),
    /// A file could not be copied into the sandbox.
    #[error(transparent)]
    CopyIn(#[from] PutError),
    /// Files could not be collected from the sandbox.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The lease of this process could not be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// No random bytes for an id.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The task of a tool call panicked or was aborted.
    #[error("a call ended without an answer")]
    CallTask(#[source] tokio::task::JoinError),
    /// The task that records what the program tried panicked or was aborted.
    #[error("what the program tried could not be written down")]
    NoteTask(#[source] tokio::task::JoinError),
    /// The task that ran the execution is gone.
    #[error("the execution was abandoned")]
    Abandoned,
    /// The principal has too many runs at once.
    #[error("too many runs are under way or wait")]
    TooManyRuns,
    /// The principal had too many refused runs: further ones are only counted.
    #[error("too many runs were refused")]
    TooManyRefused,
    /// The execution waits for approvals while this process ends: another process resumes it.
    #[error("the execution waits for an answer, and goes on in another process")]
    HandedOver,
    /// The policy of the execution cannot be enforced here, so it cannot resume.
    #[error("{}", .0.message)]
    Refused(RunRefusal),
    /// The execution has no recording to resume from.
    #[error("nothing was kept of the execution to go on with")]
    NotRecorded,
    /// The recorded request cannot be written or read.
    #[error(transparent)]
    Script(#[from] RecordedRequestError),
    /// The call log cannot be read.
    #[error(transparent)]
    Tape(#[from] ringfence_gateway::CallLogError),
    /// Another process has the execution, or it is over.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The redaction rules cannot be loaded or applied.
    #[error(transparent)]
    Screen(#[from] ringfence_gateway::RedactionError),
    /// The aliases of the session cannot be read.
    #[error(transparent)]
    Aliases(#[from] ringfence_hygiene::AliasTableError),
    /// The full output cannot be saved to a file.
    #[error("what was cut cannot be written to a file")]
    FullOutput(#[source] std::io::Error),
    /// The files that a session keeps cannot be accessed.
    #[error("cannot get at the files that a session keeps")]
    Workspace(#[source] std::io::Error),
    /// The engine takes no requests, or no more of them.
    #[error("no more requests are taken")]
    Closed,
}

impl OperationError {
    /// Why there is no Python for the program, if that is the error.
    pub fn missing_python(&self) -> Option<String> {
        let (OperationError::Run(error) | OperationError::Pool(PoolError::Prepare(error))) = self else {
            return None;
        };
        is_without_python(error).then(|| error.to_string())
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        use ringfence_sandbox::ExecutionError as Sandbox;
        match self {
            OperationError::Record(error)
            | OperationError::Screen(ringfence_gateway::RedactionError::Unkept(error)) => error.code(),
            OperationError::Launch(_) | OperationError::Pool(PoolError::Launch(_)) => "sandbox.launch",
            _ if self.missing_python().is_some() => "language.missing",
            OperationError::Run(Sandbox::Job { .. }) => "job.size",
            OperationError::Run(_) | OperationError::Pool(_) => "sandbox.failed",
            OperationError::CopyIn(_) => "files.in",
            OperationError::Collect(_) | OperationError::FullOutput(_) => "files.out",
            OperationError::Lease(_) => "store.lease",
            OperationError::Entropy(_) => "start.entropy",
            OperationError::CallTask(_) | OperationError::NoteTask(_) => "call.broken",
            OperationError::Abandoned => "run.abandoned",
            OperationError::TooManyRuns => "limit.runs",
            OperationError::TooManyRefused => "limit.refused",
            OperationError::HandedOver => "run.left",
            OperationError::Refused(refusal) => refusal.code,
            OperationError::NotRecorded | OperationError::Script(_) => "replay.unkept",
            OperationError::Tape(error) => error.code(),
            OperationError::Adopt(_) => "session.owned",
            OperationError::Screen(_) => "data.unseen",
            OperationError::Aliases(_) => "store.damaged",
            OperationError::Workspace(_) => "workspace.failed",
            OperationError::Closed => "server.closing",
        }
    }

    /// What a person can do about it; none where nothing helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self.code() {
            "sandbox.launch" => Some("`ringfence doctor` shows what is missing and how to get it"),
            "language.missing" => {
                Some("install `python3`, or name an interpreter as `runtimes.python` in `ringfence.yaml`")
            }
            "job.size" => Some("give less of it, or bring it in as a file"),
            "files.in" => {
                let OperationError::CopyIn(error) = self else {
                    return None;
                };
                error.hint()
            }
            "sandbox.failed" => Some("`ringfence doctor` shows what works here"),
            "data.unseen" => Some("look at `data.pii` of the policy: nothing is shown that nobody looked at"),
            "limit.runs" => Some("wait until some of them have ended, or cancel them"),
            "limit.refused" => {
                Some("wait a minute, then ask only for what the policy allows: the refusals before say what that is")
            }
            "server.closing" => Some("connect again when the server is back"),
            _ => {
                let OperationError::Record(error) = self else {
                    return None;
                };
                error.hint()
            }
        }
    }

    /// The rule that refuses what the client asked for; none where no rule does.
    pub fn rule(&self) -> Option<String> {
        if let OperationError::CopyIn(error) = self {
            return error.rule();
        }
        if let OperationError::Refused(refusal) = self {
            return Some(refusal.rule.clone());
        }
        None
    }

    /// Whether the client asked for something that it cannot have, so that another request may succeed; else the fault is this machine's.
    pub fn is_client_error(&self) -> bool {
        use ringfence_sandbox::ExecutionError as Sandbox;
        if let OperationError::CopyIn(error) = self {
            return error.hint().is_some();
        }
        matches!(
            self,
            OperationError::Refused(_) | OperationError::Run(Sandbox::Job { .. })
        )
    }

    /// Whether the error is transient: something was busy, full, or could not be made just now.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            OperationError::Record(error) | OperationError::Adopt(AdoptError::Record(error)) => {
                is_transient_record_error(error)
            }
            OperationError::Pool(error) => !matches!(error, PoolError::Prepare(error) if is_without_python(error)),
            OperationError::Launch(_)
            | OperationError::CopyIn(_)
            | OperationError::Lease(_)
            | OperationError::Entropy(_)
            | OperationError::Workspace(_) => true,
            OperationError::Run(_)
            | OperationError::Collect(_)
            | OperationError::CallTask(_)
            | OperationError::NoteTask(_)
            | OperationError::Abandoned
            | OperationError::TooManyRuns
            | OperationError::TooManyRefused
            | OperationError::HandedOver
            | OperationError::Refused(_)
            | OperationError::NotRecorded
            | OperationError::Script(_)
            | OperationError::Tape(_)
            | OperationError::Adopt(_)
            | OperationError::Screen(_)
            | OperationError::Aliases(_)
            | OperationError::FullOutput(_)
            | OperationError::Closed => false,
        }
    }

    /// The full message, with the message of each cause.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// Whether an execution failed because there is no Python for it.
fn is_without_python(error: &ringfence_sandbox::ExecutionError) -> bool {
    use ringfence_sandbox::ExecutionError as Sandbox;
    matches!(error, Sandbox::NoPython | Sandbox::UnusablePython(_))
}

/// Whether the record error is transient: damage is not.
fn is_transient_record_error(error: &RecordError) -> bool {
    match error {
        RecordError::Full { .. } | RecordError::Locked { .. } | RecordError::Write { .. } => true,
        RecordError::Keep { source } => matches!(source.downcast_ref(), Some(QueryError::Database(_))),
        RecordError::NotOwned { .. }
        | RecordError::Closed { .. }
        | RecordError::Forked { .. }
        | RecordError::Event { .. }
        | RecordError::Damaged { .. }
        | RecordError::Sink { .. }
        | RecordError::Lost { .. }
        | RecordError::Budget { .. }
        | RecordError::Ended => false,
    }
}
