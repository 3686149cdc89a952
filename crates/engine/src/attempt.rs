//! One attempt at an execution: the first, or one that repeats what the execution met before.

use std::sync::Arc;

use ringfence_gateway::CallLog;
use ringfence_journal::OutputHead;
use ringfence_sandbox::{ConcludedExecution, ReplayState, Stop};
use tokio::sync::watch;

use crate::durable::OutcomeDigest;
use crate::execution::ExecutionReport;
use crate::output::{OutputObserver, ShownBytes};
use crate::runs::TrackedRun;

/// What a run needs beside the request: an observer, a stop handle and the tracked run.
pub(crate) struct RunContext<'a> {
    /// Observes the output as it comes.
    pub(crate) observer: &'a mut dyn OutputObserver,
    /// Stops the execution from outside.
    pub(crate) stop: &'a mut Stop,
    /// The run that clients see; none for a command, which waits for no slot.
    pub(crate) run: Option<&'a TrackedRun>,
}

/// Why an execution cannot be repeated if its process ends; unset until that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnrepeatableReason(watch::Sender<Option<String>>);

impl UnrepeatableReason {
    /// Sets the reason, once; later reasons are dropped.
    pub(crate) fn set(&self, why: &str) {
        self.0.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_news
        });
    }

    /// Subscribes to the reason; one that is set already is seen too.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }
}

/// What an execution is run with this time.
#[derive(Debug)]
pub(crate) struct ExecutionAttempt {
    /// Seed, clock and trace; none where the execution cannot be repeated.
    pub(crate) replay: Option<ReplayState>,
    /// The log of its calls so far.
    pub(crate) tape: Arc<CallLog>,
    pub(crate) kind: AttemptKind,
    /// Output that was shown in earlier attempts.
    pub(crate) shown: ShownBytes,
    pub(crate) unrepeatable: UnrepeatableReason,
}

/// Which attempt at the execution it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptKind {
    /// Nothing has run before.
    First,
    /// The execution has started and waits to resume.
    Waiting,
    /// The execution has started and resumes.
    Resumed,
}

impl ExecutionAttempt {
    pub(crate) fn first_attempt() -> ExecutionAttempt {
        ExecutionAttempt {
            replay: None,
            tape: Arc::new(CallLog::off()),
            kind: AttemptKind::First,
            shown: ShownBytes::default(),
            unrepeatable: UnrepeatableReason::default(),
        }
    }

    /// Whether the execution is recorded, so that it can be run again.
    pub(crate) fn is_recorded(&self) -> bool {
        self.replay.is_some()
    }

    pub(crate) fn is_first(&self) -> bool {
        self.kind == AttemptKind::First
    }

    /// Whether nothing happened in this attempt yet: a failure until then can be retried.
    pub(crate) fn is_waiting(&self) -> bool {
        self.kind == AttemptKind::Waiting
    }
}

/// An execution that has finished.
#[derive(Debug)]
pub(crate) struct FinishedExecution {
    pub(crate) ended: ConcludedExecution,
    /// What a repeated execution is compared with.
    pub(crate) digest: OutcomeDigest,
    /// The report as its reader sees it.
    pub(crate) report: ExecutionReport,
    /// The output that the journal keeps.
    pub(crate) output: Option<OutputHead>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    /// The execution is over.
    Finished(Box<FinishedExecution>),
    /// The execution waits for approvals only, and has released its sandbox.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
        /// The number of calls that it waits for.
        waiting: usize,
        /// How much output was shown.
        seen: ShownBytes,
    },
}
