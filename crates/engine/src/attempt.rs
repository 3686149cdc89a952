//! One attempt at an execution: the first, or one that repeats what the execution met before.

use std::sync::Arc;

use ringfence_gateway::Tape;
use ringfence_journal::Output;
use ringfence_sandbox::{Again, Ended, Stop};
use tokio::sync::watch;

use crate::durable::Outcome;
use crate::execution::Execution;
use crate::runs::Run;
use crate::words::{Live, Seen};

/// What a run needs beside the request: an observer, a stop handle and the tracked run.
pub(crate) struct Company<'a> {
    /// Observes the output as it comes.
    pub(crate) live: &'a mut dyn Live,
    /// Stops the execution from outside.
    pub(crate) stop: &'a mut Stop,
    /// The run that clients see; none for a command, which waits for no slot.
    pub(crate) run: Option<&'a Run>,
}

/// Why an execution cannot be repeated if its process ends; unset until that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unrepeatable(watch::Sender<Option<String>>);

impl Unrepeatable {
    /// Sets the reason, once; later reasons are dropped.
    pub(crate) fn tell(&self, why: &str) {
        self.0.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_news
        });
    }

    /// Subscribes to the reason; one that is set already is seen too.
    pub(crate) fn heard(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }
}

/// What an execution is run with this time.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Seed, clock and trace; none where the execution cannot be repeated.
    pub(crate) again: Option<Again>,
    /// The log of its calls so far.
    pub(crate) tape: Arc<Tape>,
    pub(crate) kind: AttemptKind,
    /// Output that was shown in earlier attempts.
    pub(crate) seen: Seen,
    pub(crate) unrepeatable: Unrepeatable,
}

/// Which attempt at the execution it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptKind {
    /// Nothing has run before.
    First,
    /// The execution has started and waits to resume.
    Waiting,
    /// The execution has started and resumes.
    Next,
}

impl Attempt {
    pub(crate) fn first() -> Attempt {
        Attempt {
            again: None,
            tape: Arc::new(Tape::off()),
            kind: AttemptKind::First,
            seen: Seen::default(),
            unrepeatable: Unrepeatable::default(),
        }
    }

    /// Whether the execution is recorded, so that it can be run again.
    pub(crate) fn is_kept(&self) -> bool {
        self.again.is_some()
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
pub(crate) struct Over {
    pub(crate) ended: Ended,
    /// What a repeated execution is compared with.
    pub(crate) outcome: Outcome,
    /// The report as its reader sees it.
    pub(crate) execution: Execution,
    /// The output that the journal keeps.
    pub(crate) output: Option<Output>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ran {
    /// The execution is over.
    Over(Box<Over>),
    /// The execution waits for approvals only, and has released its sandbox.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
        /// The number of calls that it waits for.
        waiting: usize,
        /// How much output was shown.
        seen: Seen,
    },
}
