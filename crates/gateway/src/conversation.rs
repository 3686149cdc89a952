//! What a transport learns of a conversation as it reads: that it must end, what nobody asked for, that the tools changed.
//!
//! It is noted before the message goes on, so that an answer behind it finds it noted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Messages that nobody asked for, in one window.
pub(crate) const MAX_UNASKED: u32 = 20_000;
const UNASKED_WINDOW: Duration = Duration::from_secs(10);
const FLOOD: &str = "it floods us with messages that nobody asked for";
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Shared by a transport and whoever calls through it.
#[derive(Debug, Default)]
pub(crate) struct ConversationState {
    fault: OnceLock<&'static str>,
    faulted: Notify,
    unasked: Mutex<Option<(Instant, u32)>>,
    /// How often the server said that its tools changed, and how much of that the last listing knows.
    changes: AtomicU64,
    listed: AtomicU64,
    /// Rings when the server says that its tools changed.
    pub(crate) changed: Notify,
}

impl ConversationState {
    /// Ends the conversation, for this reason.
    pub(crate) fn set_fault(&self, reason: &'static str) {
        let _ = self.fault.set(reason);
        self.faulted.notify_waiters();
    }

    /// Why we ended the conversation, when we did.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault.get().copied()
    }

    /// Waits until we end the conversation.
    pub(crate) async fn faulted(&self) -> &'static str {
        loop {
            let notified = self.faulted.notified();
            if let Some(reason) = self.fault() {
                return reason;
            }
            notified.await;
        }
    }

    /// Counts what nobody asked for; whether it is too much, which ends the conversation.
    pub(crate) fn count_unasked(&self) -> bool {
        let mut window = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = window.get_or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() > UNASKED_WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        let is_flood = *count > MAX_UNASKED;
        drop(window);
        if is_flood {
            self.set_fault(FLOOD);
        }
        is_flood
    }

    /// Notes that the server said that its tools changed.
    pub(crate) fn note_list_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// The same for a message that is not read yet.
    pub(crate) fn note_list_change_in(&self, message: &str) {
        #[derive(serde::Deserialize)]
        struct Outline {
            #[serde(default)]
            method: Option<String>,
        }
        // Most messages do not have the word, and need not be read twice.
        if message.contains(LIST_CHANGED)
            && let Ok(outline) = serde_json::from_str::<Outline>(message)
            && outline.method.as_deref() == Some(LIST_CHANGED)
        {
            self.note_list_change();
        }
    }

    /// The changes that a listing which begins now will know.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that a listing knows so many changes.
    pub(crate) fn note_listed(&self, changes: u64) {
        self.listed.fetch_max(changes, Ordering::AcqRel);
    }

    /// Whether the server said that its tools changed and was not listed since.
    pub(crate) fn is_stale(&self) -> bool {
        self.changes() > self.listed.load(Ordering::Acquire)
    }
}
