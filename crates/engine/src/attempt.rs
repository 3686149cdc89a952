//! One of the times that an execution is run: the first, or again with what it met before.

use std::sync::Arc;

use ringfence_gateway::Tape;
use ringfence_journal::Output;
use ringfence_sandbox::{Again, Ended, Stop};
use tokio::sync::watch;

use crate::durable::Outcome;
use crate::execution::Execution;
use crate::runs::Run;
use crate::words::{Live, Seen};

/// Who is around an execution.
pub(crate) struct Company<'a> {
    /// Who sees its output.
    pub(crate) live: &'a mut dyn Live,
    /// Who may end it.
    pub(crate) stop: &'a mut Stop,
    /// What clients see of it; none for a command, which waits for no place.
    pub(crate) run: Option<&'a Run>,
}

/// Why an execution could not go on if its process ended, once that is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unrepeatable(watch::Sender<Option<String>>);

impl Unrepeatable {
    /// The first reason is as good as any.
    pub(crate) fn tell(&self, why: &str) {
        self.0.send_if_modified(|known| {
            let is_news = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_news
        });
    }

    /// Hears it, also later.
    pub(crate) fn heard(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }
}

/// What an execution is run with this time.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Seed, clock and trace; none for what is no code.
    pub(crate) again: Option<Again>,
    /// Its calls until now.
    pub(crate) tape: Arc<Tape>,
    pub(crate) kind: AttemptKind,
    /// Output that was shown before.
    pub(crate) seen: Seen,
    pub(crate) unrepeatable: Unrepeatable,
}

/// Which time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptKind {
    /// It has not begun.
    First,
    /// It has, and waits to go on.
    Waiting,
    /// It has, and goes on.
    Next,
}

impl Attempt {
    /// The first time.
    pub(crate) fn first() -> Attempt {
        Attempt {
            again: None,
            tape: Arc::new(Tape::off()),
            kind: AttemptKind::First,
            seen: Seen::default(),
            unrepeatable: Unrepeatable::default(),
        }
    }

    /// Whether it can be run again: what it meets is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.again.is_some()
    }

    pub(crate) fn is_first(&self) -> bool {
        self.kind == AttemptKind::First
    }

    /// Whether nothing happened this time: what fails until then can be tried again.
    pub(crate) fn is_waiting(&self) -> bool {
        self.kind == AttemptKind::Waiting
    }
}

/// An execution that is over.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) ended: Ended,
    /// What it is compared with when it is run again.
    pub(crate) outcome: Outcome,
    /// As its reader sees it.
    pub(crate) execution: Execution,
    /// What the journal keeps of its output.
    pub(crate) output: Option<Output>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ran {
    /// The execution is over.
    Over(Box<Over>),
    /// It only waits for people, and has no sandbox.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
        /// How many calls it waits for.
        waiting: usize,
        /// Output that was shown.
        seen: Seen,
    },
}
