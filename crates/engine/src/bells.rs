//! Notifies the tasks of this process that wait for an approval answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringfence_journal::{ApprovalAnswer, ApprovalId, ExecutionId};
use tokio::sync::{Notify, broadcast};

use crate::approvals::Inquiry;
use crate::engine::{Engine, lock};

/// Events that a listener can lag behind before it misses some.
const ROOM: usize = 256;

/// An event about the approval requests of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// An execution made an approval request.
    Asked(ExecutionId, Inquiry),
    /// A request is settled: its call goes on or is refused.
    Settled(ExecutionId, ApprovalId, ApprovalAnswer),
    /// An execution waits for approvals only and could not resume if its process ended; with the reason.
    Unrepeatable(ExecutionId, String),
}

/// Waiters by the approval request that they wait for.
#[derive(Debug, Clone)]
pub(crate) struct Bells {
    hung: Arc<Mutex<HashMap<ApprovalId, Arc<Notify>>>>,
    /// Notified of answers that nothing in this process waits for.
    others: Arc<Notify>,
    words: broadcast::Sender<Word>,
}

impl Default for Bells {
    fn default() -> Bells {
        Bells {
            hung: Arc::default(),
            others: Arc::default(),
            words: broadcast::Sender::new(ROOM),
        }
    }
}

impl Engine {
    /// Subscribes to approval events from now on. A slow listener misses some, and the receiver reports it.
    pub fn questions(&self) -> broadcast::Receiver<Word> {
        self.bells.words.subscribe()
    }
}

/// A waiter for one or more requests, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Bell {
    heard: Arc<Notify>,
    questions: Vec<ApprovalId>,
    bells: Bells,
}

impl Bells {
    /// Publishes an event to all listeners.
    pub(crate) fn tell(&self, word: Word) {
        // There may be no listener.
        let _ = self.words.send(word);
    }

    /// Registers a waiter. It does not see answers from before: look for those after registering.
    pub(crate) fn hang(&self, questions: impl IntoIterator<Item = ApprovalId>) -> Bell {
        let heard = Arc::new(Notify::new());
        let questions: Vec<ApprovalId> = questions.into_iter().collect();
        let mut bells = lock(&self.hung);
        for question in &questions {
            bells.insert(*question, Arc::clone(&heard));
        }
        drop(bells);
        Bell {
            heard,
            questions,
            bells: self.clone(),
        }
    }

    /// Notifies the waiter of an answered request.
    pub(crate) fn ring(&self, question: ApprovalId) {
        let bell = lock(&self.hung).get(&question).cloned();
        bell.unwrap_or_else(|| Arc::clone(&self.others)).notify_one();
    }

    /// Waits for an answer that nothing in this process waits for.
    pub(crate) async fn others(&self) {
        self.others.notified().await;
    }
}

impl Bell {
    /// Waits for a notification; an earlier one returns at once.
    pub(crate) async fn rings(&self) {
        self.heard.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells.hung);
        for question in &self.questions {
            // A waiter that was registered for the same request meanwhile stays.
            if bells.get(question).is_some_and(|bell| Arc::ptr_eq(bell, &self.heard)) {
                bells.remove(question);
            }
        }
    }
}
