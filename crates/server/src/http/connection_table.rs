//! The table of open connections. It has a fixed capacity, and connections without a request make room for new ones.
//!
//! A connection that has not sent a whole head, or is idle between two requests, never causes a client to be rejected.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// The table of all open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    capacity: usize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// Connections without a request, by the turn in which they began to wait. Cancelling the token closes the connection.
    waiting: BTreeMap<u64, CancellationToken>,
    /// The number of connections with a request in progress.
    busy: usize,
    /// The turn of the next connection that waits: a smaller number has waited longer.
    next_turn: u64,
}

/// The entry of a connection in the table; dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    evicted: CancellationToken,
    state: Mutex<SlotState>,
}

#[derive(Debug, Clone, Copy)]
enum SlotState {
    Waiting(u64),
    Busy,
}

/// A request in progress: its connection stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionSlot>);

impl ConnectionTable {
    pub(crate) fn new(capacity: usize) -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable {
            capacity,
            connections: Mutex::default(),
        })
    }

    /// Adds a connection. A full table closes the connection that has waited longest; `None` if every connection has a request in
    /// progress.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<ConnectionSlot>> {
        let mut connections = self.connections();
        if connections.busy + connections.waiting.len() >= self.capacity {
            let (_, oldest) = connections.waiting.pop_first()?;
            oldest.cancel();
        }
        let evicted = CancellationToken::new();
        let turn = connections.add_waiting(evicted.clone());
        Some(Arc::new(ConnectionSlot {
            table: Arc::clone(self),
            evicted,
            state: Mutex::new(SlotState::Waiting(turn)),
        }))
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn add_waiting(&mut self, evicted: CancellationToken) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting.insert(turn, evicted);
        turn
    }
}

impl ConnectionSlot {
    /// Waits until this connection has to make room for another.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Marks the connection as busy; `None` if it already has to make room.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        let mut connections = self.table.connections();
        let mut stage = self.state();
        if let SlotState::Waiting(turn) = *stage {
            connections.waiting.remove(&turn)?;
            connections.busy += 1;
            *stage = SlotState::Busy;
        }
        drop((stage, connections));
        Some(ActiveRequest(Arc::clone(self)))
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let stage = *self.state();
        let mut connections = self.table.connections();
        match stage {
            // A connection that was closed to make room is no longer in the table.
            SlotState::Waiting(turn) => drop(connections.waiting.remove(&turn)),
            SlotState::Busy => connections.busy = connections.busy.saturating_sub(1),
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let slot = &self.0;
        let mut connections = slot.table.connections();
        let mut stage = slot.state();
        if let SlotState::Busy = *stage {
            connections.busy = connections.busy.saturating_sub(1);
            *stage = SlotState::Waiting(connections.add_waiting(slot.evicted.clone()));
        }
    }
}

/// The body of a response, which keeps its request in progress until it is sent or dropped.
pub(crate) struct ResponseBody {
    pub(crate) inner: Body,
    pub(crate) _request: ActiveRequest,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
