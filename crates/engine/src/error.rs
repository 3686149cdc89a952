//! Operation errors: why an execution has no result, with a stable code and a hint.

use ringfence_journal::{NoEntropy, RecordError};
use ringfence_sandbox::{CollectError, LaunchError, PutError, TakeError};
use ringfence_store::{AdoptError, LeaseError, ReadError};

use crate::refusal::Refusal;
use crate::script::ScriptError;

/// Why an execution has no result. Failures of the program itself are results, not errors.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal could not record an event, so the operation did not happen.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The sandbox could not be launched.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The pool could not supply a sandbox.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// The execution failed inside the sandbox backend.
    #[error(transparent)]
    Run(#[from] ringfence_sandbox::RunError),
    /// A file could not be copied into the sandbox.
    #[error(transparent)]
    Put(#[from] PutError),
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
    Unanswered(#[source] tokio::task::JoinError),
    /// The task that records what the program tried panicked or was aborted.
    #[error("what the program tried could not be written down")]
    Unnoted(#[source] tokio::task::JoinError),
    /// The task that ran the execution is gone.
    #[error("the execution was abandoned")]
    Abandoned,
    /// The principal has too many runs at once.
    #[error("too many runs are under way or wait")]
    Crowded,
    /// The execution waits for approvals while this process ends: another process resumes it.
    #[error("the execution waits for an answer, and goes on in another process")]
    Left,
    /// The policy of the execution cannot be enforced here, so it cannot resume.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The execution has no recording to resume from.
    #[error("nothing was kept of the execution to go on with")]
    Unkept,
    /// The recorded request cannot be written or read.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The call log cannot be read.
    #[error(transparent)]
    Tape(#[from] ringfence_gateway::TapeError),
    /// Another process has the execution, or it is over.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The redaction rules cannot be loaded or applied.
    #[error(transparent)]
    Screen(#[from] ringfence_gateway::ScreenError),
    /// The aliases of the session cannot be read.
    #[error(transparent)]
    Aliases(#[from] ringfence_hygiene::ReadError),
    /// The full output cannot be saved to a file.
    #[error("what was cut cannot be written to a file")]
    Whole(#[source] std::io::Error),
    /// The files that a session keeps cannot be accessed.
    #[error("cannot get at the files that a session keeps")]
    Workspace(#[source] std::io::Error),
    /// The engine takes no requests, or no more of them.
    #[error("no more requests are taken")]
    Closed,
}

impl RunError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        use ringfence_sandbox::RunError as Sandbox;
        match self {
            RunError::Record(error) | RunError::Screen(ringfence_gateway::ScreenError::Unkept(error)) => error.code(),
            RunError::Launch(_) | RunError::Take(TakeError::Launch(_)) => "sandbox.launch",
            RunError::Run(Sandbox::NoPython) | RunError::Take(TakeError::Prepare(Sandbox::NoPython)) => {
                "language.missing"
            }
            RunError::Run(Sandbox::Job { .. }) => "job.size",
            RunError::Run(_) | RunError::Take(_) => "sandbox.failed",
            RunError::Put(_) => "files.in",
            RunError::Collect(_) | RunError::Whole(_) => "files.out",
            RunError::Lease(_) => "store.lease",
            RunError::Entropy(_) => "start.entropy",
            RunError::Unanswered(_) | RunError::Unnoted(_) => "call.broken",
            RunError::Abandoned => "run.abandoned",
            RunError::Crowded => "limit.runs",
            RunError::Left => "run.left",
            RunError::Refused(refusal) => refusal.code,
            RunError::Unkept | RunError::Script(_) => "replay.unkept",
            RunError::Tape(error) => error.code(),
            RunError::Adopt(_) => "session.owned",
            RunError::Screen(_) => "data.unseen",
            RunError::Aliases(_) => "store.damaged",
            RunError::Workspace(_) => "workspace.failed",
            RunError::Closed => "server.closing",
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
                let RunError::Put(error) = self else { return None };
                error.hint()
            }
            "sandbox.failed" => Some("`ringfence doctor` shows what works here"),
            "data.unseen" => Some("look at `data.pii` of the policy: nothing is shown that nobody looked at"),
            "limit.runs" => Some("wait until some of them have ended, or cancel them"),
            "server.closing" => Some("connect again when the server is back"),
            _ => {
                let RunError::Record(error) = self else { return None };
                error.hint()
            }
        }
    }

    /// Whether the client asked for something that it cannot have, so that another request may succeed; else the fault is this machine's.
    pub fn is_askers(&self) -> bool {
        use ringfence_sandbox::RunError as Sandbox;
        if let RunError::Put(error) = self {
            return error.hint().is_some();
        }
        matches!(self, RunError::Refused(_) | RunError::Run(Sandbox::Job { .. }))
    }

    /// Whether the error is transient: something was busy, full, or could not be made just now.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            RunError::Record(error) | RunError::Adopt(AdoptError::Record(error)) => passes(error),
            RunError::Take(error) => !matches!(error, TakeError::Prepare(ringfence_sandbox::RunError::NoPython)),
            RunError::Launch(_)
            | RunError::Put(_)
            | RunError::Lease(_)
            | RunError::Entropy(_)
            | RunError::Workspace(_) => true,
            RunError::Run(_)
            | RunError::Collect(_)
            | RunError::Unanswered(_)
            | RunError::Unnoted(_)
            | RunError::Abandoned
            | RunError::Crowded
            | RunError::Left
            | RunError::Refused(_)
            | RunError::Unkept
            | RunError::Script(_)
            | RunError::Tape(_)
            | RunError::Adopt(_)
            | RunError::Screen(_)
            | RunError::Aliases(_)
            | RunError::Whole(_)
            | RunError::Closed => false,
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

/// Whether the record error is transient: damage is not.
fn passes(error: &RecordError) -> bool {
    match error {
        RecordError::Full { .. } | RecordError::Locked { .. } | RecordError::Write { .. } => true,
        RecordError::Keep { source } => matches!(source.downcast_ref(), Some(ReadError::Database(_))),
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
