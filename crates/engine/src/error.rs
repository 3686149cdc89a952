//! Why an execution has no result, with a stable code and what to do next.

use ringfence_journal::{NoEntropy, RecordError};
use ringfence_sandbox::{CollectError, LaunchError, PutError, TakeError};
use ringfence_store::{AdoptError, LeaseError, ReadError};

use crate::refusal::Refusal;
use crate::script::ScriptError;

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
    /// It waits for people, and this process ends: another one goes on with it.
    #[error("the execution waits for an answer, and goes on in another process")]
    Left,
    /// It should go on, and its policy cannot be held here.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It should go on, and nothing was kept of it.
    #[error("nothing was kept of the execution to go on with")]
    Unkept,
    /// What was kept of it.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// What was kept of its calls.
    #[error(transparent)]
    Tape(#[from] ringfence_gateway::TapeError),
    /// It is gone on with elsewhere, or is over.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// What of it may be shown.
    #[error(transparent)]
    Screen(#[from] ringfence_gateway::ScreenError),
    /// What stood for personal data in its session.
    #[error(transparent)]
    Aliases(#[from] ringfence_hygiene::ReadError),
    /// The files of what was cut.
    #[error("what was cut cannot be written to a file")]
    Whole(#[source] std::io::Error),
    /// The files that a session keeps.
    #[error("cannot get at the files that a session keeps")]
    Workspace(#[source] std::io::Error),
    /// No requests are taken, or no more.
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

    /// What a person can do about it.
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

    /// Whether what was asked for cannot be had, so that asking for something else helps; else it is this machine's fault.
    pub fn is_askers(&self) -> bool {
        use ringfence_sandbox::RunError as Sandbox;
        if let RunError::Put(error) = self {
            return error.hint().is_some();
        }
        matches!(self, RunError::Refused(_) | RunError::Run(Sandbox::Job { .. }))
    }

    /// Whether it may be otherwise in a while: something was busy, full, or could not be made just now.
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

/// Whether the journal may take, or give, in a while what it does not now. What is damaged stays so.
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
