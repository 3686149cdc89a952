//! Notifies the tasks of this process that wait for an approval answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringfence_journal::{ApprovalAnswer, ApprovalId, ExecutionId};
use tokio::sync::{Notify, broadcast};

use crate::approvals::PendingApproval;
use crate::engine::lock;

/// Events that a listener can lag behind before it misses some.
const EVENT_CAPACITY: usize = 256;

/// An event about the approval requests of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalEvent {
    /// An execution made an approval request.
    Asked(ExecutionId, PendingApproval),
    /// A request is settled: its call goes on or is refused.
    Settled(ExecutionId, ApprovalId, ApprovalAnswer),
    /// An execution waits for approvals only and could not resume if its process ended; with the reason.
    Unrepeatable(ExecutionId, String),
}

/// Waiters by the approval request that they wait for.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalNotifier {
    waiters: Arc<Mutex<HashMap<ApprovalId, Arc<Notify>>>>,
    /// Notified of answers that nothing in this process waits for.
    unclaimed: Arc<Notify>,
    events: broadcast::Sender<ApprovalEvent>,
}

impl Default for ApprovalNotifier {
    fn default() -> ApprovalNotifier {
        ApprovalNotifier {
            waiters: Arc::default(),
            unclaimed: Arc::default(),
            events: broadcast::Sender::new(EVENT_CAPACITY),
        }
    }
}

/// A waiter for one or more requests, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ApprovalWaiter {
    notify: Arc<Notify>,
    questions: Vec<ApprovalId>,
    notifier: ApprovalNotifier,
}

impl ApprovalNotifier {
    /// Subscribes to events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ApprovalEvent> {
        self.events.subscribe()
    }

    /// Publishes an event to all listeners.
    pub(crate) fn publish(&self, word: ApprovalEvent) {
        // There may be no listener.
        let _ = self.events.send(word);
    }

    /// Registers a waiter. It does not see answers from before: look for those after registering.
    pub(crate) fn register(&self, questions: impl IntoIterator<Item = ApprovalId>) -> ApprovalWaiter {
        let heard = Arc::new(Notify::new());
        let questions: Vec<ApprovalId> = questions.into_iter().collect();
        let mut bells = lock(&self.waiters);
        for question in &questions {
            bells.insert(*question, Arc::clone(&heard));
        }
        drop(bells);
        ApprovalWaiter {
            notify: heard,
            questions,
            notifier: self.clone(),
        }
    }

    /// Notifies the waiter of an answered request.
    pub(crate) fn notify(&self, question: ApprovalId) {
        let bell = lock(&self.waiters).get(&question).cloned();
        bell.unwrap_or_else(|| Arc::clone(&self.unclaimed)).notify_one();
    }

    /// Waits for an answer that nothing in this process waits for.
    pub(crate) async fn unclaimed_answer(&self) {
        self.unclaimed.notified().await;
    }
}

impl ApprovalWaiter {
    /// Waits for a notification; an earlier one returns at once.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for ApprovalWaiter {
    fn drop(&mut self) {
        let mut bells = lock(&self.notifier.waiters);
        for question in &self.questions {
            // A waiter that was registered for the same request meanwhile stays.
            if bells.get(question).is_some_and(|bell| Arc::ptr_eq(bell, &self.notify)) {
                bells.remove(question);
            }
        }
    }
}
