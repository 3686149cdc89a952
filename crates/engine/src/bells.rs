//! Who waits for a person's answer in this process, and how they hear that there is one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ringfence_journal::{ApprovalAnswer, ApprovalId, ExecutionId};
use tokio::sync::{Notify, broadcast};

use crate::approvals::Inquiry;
use crate::engine::{Engine, lock};

/// Words that wait for a listener before it misses some.
const ROOM: usize = 256;

/// What happens to the questions that this process asks, as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// One was asked.
    Asked(ExecutionId, Inquiry),
    /// One is settled, and its call goes on or is refused.
    Settled(ExecutionId, ApprovalId, ApprovalAnswer),
    /// All that an execution does is wait for people, and it could not go on if its process ended: why.
    Unrepeatable(ExecutionId, String),
}

/// Bells, one for each question that somebody here waits for.
#[derive(Debug, Clone)]
pub(crate) struct Bells {
    hung: Arc<Mutex<HashMap<ApprovalId, Arc<Notify>>>>,
    /// Rings for answers that nobody here waits for.
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
    /// The questions that are asked and settled here from now on. A listener that is slow misses some, and is told so.
    pub fn questions(&self) -> broadcast::Receiver<Word> {
        self.bells.words.subscribe()
    }
}

/// Somebody's bell, taken down when it is dropped. One bell may hang for several questions.
#[derive(Debug)]
pub(crate) struct Bell {
    heard: Arc<Notify>,
    questions: Vec<ApprovalId>,
    bells: Bells,
}

impl Bells {
    /// Tells whoever listens.
    pub(crate) fn tell(&self, word: Word) {
        // Nobody needs to listen.
        let _ = self.words.send(word);
    }

    /// A bell for some questions. What was answered before it hung must be looked for.
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

    /// A question was answered.
    pub(crate) fn ring(&self, question: ApprovalId) {
        let bell = lock(&self.hung).get(&question).cloned();
        bell.unwrap_or_else(|| Arc::clone(&self.others)).notify_one();
    }

    /// Waits for an answer that nobody here waits for.
    pub(crate) async fn others(&self) {
        self.others.notified().await;
    }
}

impl Bell {
    /// Waits until it rings; a ring that came before is heard at once.
    pub(crate) async fn rings(&self) {
        self.heard.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells.hung);
        for question in &self.questions {
            // Whoever hung another one meanwhile keeps it.
            if bells.get(question).is_some_and(|bell| Arc::ptr_eq(bell, &self.heard)) {
                bells.remove(question);
            }
        }
    }
}
