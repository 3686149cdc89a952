//! Counts the calls that have no answer yet.

use tokio::sync::watch;

/// The number of calls without an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingCalls {
    /// All calls without an answer, including those that await approval.
    pub open: usize,
    /// Calls that await approval by a person.
    pub awaiting_approval: usize,
}

impl WaitingCalls {
    /// Whether a call awaits approval: watchers are not notified of other calls.
    fn has_approvals(self) -> bool {
        self.awaiting_approval > 0
    }

    /// Returns how many calls await approval, if no call waits for anything else.
    pub fn all_awaiting_approval(self) -> Option<usize> {
        (self.open > 0 && self.open == self.awaiting_approval).then_some(self.open)
    }
}

/// The counters, which can be watched.
#[derive(Debug, Default)]
pub(super) struct WaitingCounter(watch::Sender<WaitingCalls>);

/// The counter that a call adds to.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitKind {
    Open,
    Approval,
}

impl WaitKind {
    fn count_mut(self, waiting: &mut WaitingCalls) -> &mut usize {
        match self {
            WaitKind::Open => &mut waiting.open,
            WaitKind::Approval => &mut waiting.awaiting_approval,
        }
    }
}

/// Counts one call until it is dropped.
#[derive(Debug)]
pub(super) struct WaitGuard<'a>(&'a WaitingCounter, WaitKind);

impl WaitingCounter {
    pub(super) fn watch(&self) -> watch::Receiver<WaitingCalls> {
        self.0.subscribe()
    }

    pub(super) fn add(&self, counted: WaitKind) -> WaitGuard<'_> {
        self.0.send_if_modified(|waiting| {
            *counted.count_mut(waiting) += 1;
            waiting.has_approvals()
        });
        WaitGuard(self, counted)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.0.send_if_modified(|waiting| {
            let matters = waiting.has_approvals();
            let count = self.1.count_mut(waiting);
            *count = count.saturating_sub(1);
            matters
        });
    }
}
