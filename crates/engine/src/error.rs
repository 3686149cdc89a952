//! Why an execution has no result, with a stable code and what to do next.

use ringfence_journal::{NoEntropy, RecordError};
use ringfence_sandbox::{CollectError, LaunchError, PutError, TakeError};
use ringfence_store::LeaseError;

/// Why an execution has no result. What the program did wrong is never here.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal: without a record nothing happens.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The sandbox.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A sandbox from the pool.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// The execution.
    #[error(transparent)]
    Run(#[from] ringfence_sandbox::RunError),
    /// A file going in.
    #[error(transparent)]
    Put(#[from] PutError),
    /// Files coming out.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// This process's claim.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// An id.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// A call of the program.
    #[error("a call ended without an answer")]
    Unanswered(#[source] tokio::task::JoinError),
    /// What the program tried.
    #[error("what the program tried could not be written down")]
    Unnoted(#[source] tokio::task::JoinError),
    /// Whoever ran it.
    #[error("the execution was abandoned")]
    Abandoned,
    /// One principal has too much under way.
    #[error("too many runs are under way or wait")]
    Crowded,
    /// No requests are taken, or no more.
    #[error("no more requests are taken")]
    Closed,
}

impl RunError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        use ringfence_sandbox::RunError as Sandbox;
        match self {
            RunError::Record(error) => error.code(),
            RunError::Launch(_) | RunError::Take(TakeError::Launch(_)) => "sandbox.launch",
            RunError::Run(Sandbox::NoPython) | RunError::Take(TakeError::Prepare(Sandbox::NoPython)) => {
                "language.missing"
            }
            RunError::Run(Sandbox::Job { .. }) => "job.size",
            RunError::Run(_) | RunError::Take(_) => "sandbox.failed",
            RunError::Put(_) => "files.in",
            RunError::Collect(_) => "files.out",
            RunError::Lease(_) => "store.lease",
            RunError::Entropy(_) => "start.entropy",
            RunError::Unanswered(_) | RunError::Unnoted(_) => "call.broken",
            RunError::Abandoned => "run.abandoned",
            RunError::Crowded => "limit.runs",
            RunError::Closed => "server.closing",
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.code() {
            "sandbox.launch" => Some("`ringfence doctor` shows what is missing and how to get it"),
            "language.missing" => {
                Some("install `python3`, or name an interpreter as `runtimes.python` in `ringfence.yaml`")
            }
            "job.size" => Some("give less of it, or bring it in as a file"),
            "sandbox.failed" => Some("`ringfence doctor` shows what works here"),
            "limit.runs" => Some("wait until some of them have ended, or cancel them"),
            "server.closing" => Some("connect again when the server is back"),
            _ => {
                let RunError::Record(error) = self else { return None };
                error.hint()
            }
        }
    }

    /// The whole sentence, with every cause.
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
