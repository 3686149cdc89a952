//! State that a transport shares with its client: whether the conversation must end, how many unsolicited messages
//! came, and whether the tools changed.
//!
//! The transport records a message here before it passes the message on, so a later answer finds the state up to
//! date.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Most unsolicited messages in one window.
pub(crate) const MAX_UNSOLICITED: u32 = 20_000;
const UNSOLICITED_WINDOW: Duration = Duration::from_secs(10);
const FLOOD: &str = "it floods us with messages that nobody asked for";
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// The state of one conversation, shared by its transport and the code that calls through it.
#[derive(Debug, Default)]
pub(crate) struct ConversationState {
    fault: OnceLock<&'static str>,
    faulted: Notify,
    unsolicited: Mutex<Option<(Instant, u32)>>,
    /// How often the server announced that its tools changed, and how many of these announcements the last listing
    /// covers.
    changes: AtomicU64,
    listed: AtomicU64,
    /// Notified when the server announces that its tools changed.
    pub(crate) changed: Notify,
}

impl ConversationState {
    /// Ends the conversation with this reason.
    pub(crate) fn set_fault(&self, reason: &'static str) {
        let _ = self.fault.set(reason);
        self.faulted.notify_waiters();
    }

    /// Returns why the gateway ended the conversation; `None` if it did not.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault.get().copied()
    }

    /// Waits until the gateway ends the conversation.
    pub(crate) async fn wait_for_fault(&self) -> &'static str {
        loop {
            let notified = self.faulted.notified();
            if let Some(reason) = self.fault() {
                return reason;
            }
            notified.await;
        }
    }

    /// Counts an unsolicited message. Returns whether there are too many, which ends the conversation.
    pub(crate) fn count_unsolicited(&self) -> bool {
        let mut window = self.unsolicited.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = window.get_or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() > UNSOLICITED_WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        let is_flood = *count > MAX_UNSOLICITED;
        drop(window);
        if is_flood {
            self.set_fault(FLOOD);
        }
        is_flood
    }

    /// Records that the server announced a change of its tools.
    pub(crate) fn note_list_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Does the same for a message that is not parsed yet.
    pub(crate) fn note_list_change_in(&self, message: &str) {
        #[derive(serde::Deserialize)]
        struct NotificationOutline {
            #[serde(default)]
            method: Option<String>,
        }
        // Most messages do not contain the word, and need not be parsed twice.
        if message.contains(LIST_CHANGED)
            && let Ok(outline) = serde_json::from_str::<NotificationOutline>(message)
            && outline.method.as_deref() == Some(LIST_CHANGED)
        {
            self.note_list_change();
        }
    }

    /// Returns the number of changes that a listing which begins now will cover.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records that a listing covers this many changes.
    pub(crate) fn note_listed(&self, changes: u64) {
        self.listed.fetch_max(changes, Ordering::AcqRel);
    }

    /// Whether the server announced a change of its tools since they were last listed.
    pub(crate) fn is_stale(&self) -> bool {
        self.changes() > self.listed.load(Ordering::Acquire)
    }
}
