//! Counts the calls that have no answer yet.

use tokio::sync::watch;

/// The number of calls without an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// All calls without an answer, including those that await approval.
    pub open: usize,
    /// Calls that await approval by a person.
    pub at_the_desk: usize,
}

impl Waiting {
    /// Whether a call awaits approval: watchers are not notified of other calls.
    fn matters(self) -> bool {
        self.at_the_desk > 0
    }

    /// Returns how many calls await approval, if no call waits for anything else.
    pub fn all_at_the_desk(self) -> Option<usize> {
        (self.open > 0 && self.open == self.at_the_desk).then_some(self.open)
    }
}

/// The counters, which can be watched.
#[derive(Debug, Default)]
pub(super) struct Waits(watch::Sender<Waiting>);

/// The counter that a call adds to.
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

/// Counts one call until it is dropped.
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
