//! Whether the engine takes no more requests: set once, seen by everything that waits.

use std::sync::Arc;

use tokio::sync::watch;

/// Says that the engine takes no more requests.
#[derive(Debug, Clone)]
pub(crate) struct ClosingSignal(Arc<watch::Sender<bool>>);

impl ClosingSignal {
    pub(crate) fn new() -> ClosingSignal {
        ClosingSignal(Arc::new(watch::Sender::new(false)))
    }

    /// Refuses all requests from now on.
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the engine takes no more requests.
    pub(crate) async fn closed(&self) {
        // This value holds the sender.
        let _ = self.0.subscribe().wait_for(|closing| *closing).await;
    }
}
