//! The calls that have no answer yet, counted.

use tokio::sync::watch;

/// Calls that have no answer yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// All of them.
    pub open: usize,
    /// Those that wait for a person.
    pub at_the_desk: usize,
}

impl Waiting {
    /// Whether anybody waits for a person: nobody wants to hear of every other call.
    fn matters(self) -> bool {
        self.at_the_desk > 0
    }

    /// How many calls wait for a person, when none waits for anything else.
    pub fn all_at_the_desk(self) -> Option<usize> {
        (self.open > 0 && self.open == self.at_the_desk).then_some(self.open)
    }
}

/// The counts, which can be watched.
#[derive(Debug, Default)]
pub(super) struct Waits(watch::Sender<Waiting>);

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Open,
    AtTheDesk,
}

impl Counted {
    fn of(self, waiting: &mut Waiting) -> &mut usize {
        match self {
            Counted::Open => &mut waiting.open,
            Counted::AtTheDesk => &mut waiting.at_the_desk,
        }
    }
}

/// One call, for as long as it counts.
#[derive(Debug)]
pub(super) struct Counts<'a>(&'a Waits, Counted);

impl Waits {
    pub(super) fn watch(&self) -> watch::Receiver<Waiting> {
        self.0.subscribe()
    }

    pub(super) fn add(&self, counted: Counted) -> Counts<'_> {
        self.0.send_if_modified(|waiting| {
            *counted.of(waiting) += 1;
            waiting.matters()
        });
        Counts(self, counted)
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.0.send_if_modified(|waiting| {
            let matters = waiting.matters();
            let count = self.1.of(waiting);
            *count = count.saturating_sub(1);
            matters
        });
    }
}
