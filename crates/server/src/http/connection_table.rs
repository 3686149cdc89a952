//! The open connections: at most so many, and those on which nothing is under way make room for new ones.
//!
//! A connection that has not sent a whole head, or is idle between two requests, is never a reason to turn a client away.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// Every open connection.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    capacity: usize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// Connections without a request, by when they began to wait; cancelling the token closes one.
    waiting: BTreeMap<u64, CancellationToken>,
    /// Connections whose request is being answered.
    busy: usize,
    /// Counts up: a smaller number has waited for longer.
    next_turn: u64,
}

/// A connection's entry in the table; dropping it removes it.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    evicted: CancellationToken,
    stage: Mutex<Stage>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Waiting(u64),
    Busy,
}

/// A request that is being answered: its connection stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionSlot>);

impl ConnectionTable {
    pub(crate) fn new(capacity: usize) -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable {
            capacity,
            connections: Mutex::default(),
        })
    }

    /// An entry for a new connection. A full table closes the connection that has waited for longest; none when every
    /// connection has a request under way.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<ConnectionSlot>> {
        let mut connections = self.connections();
        if connections.busy + connections.waiting.len() >= self.capacity {
            let (_, oldest) = connections.waiting.pop_first()?;
            oldest.cancel();
        }
        let evicted = CancellationToken::new();
        let turn = connections.wait(evicted.clone());
        Some(Arc::new(ConnectionSlot {
            table: Arc::clone(self),
            evicted,
            stage: Mutex::new(Stage::Waiting(turn)),
        }))
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn wait(&mut self, evicted: CancellationToken) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting.insert(turn, evicted);
        turn
    }
}

impl ConnectionSlot {
    /// Waits until the connection must make room for another.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Marks the connection as one with a request; none when it was told to make room before.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        let mut connections = self.table.connections();
        let mut stage = self.stage();
        if let Stage::Waiting(turn) = *stage {
            connections.waiting.remove(&turn)?;
            connections.busy += 1;
            *stage = Stage::Busy;
        }
        drop((stage, connections));
        Some(ActiveRequest(Arc::clone(self)))
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let stage = *self.stage();
        let mut connections = self.table.connections();
        match stage {
            // One that was closed to make room is gone from the table already.
            Stage::Waiting(turn) => drop(connections.waiting.remove(&turn)),
            Stage::Busy => connections.busy = connections.busy.saturating_sub(1),
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let slot = &self.0;
        let mut connections = slot.table.connections();
        let mut stage = slot.stage();
        if let Stage::Busy = *stage {
            connections.busy = connections.busy.saturating_sub(1);
            *stage = Stage::Waiting(connections.wait(slot.evicted.clone()));
        }
    }
}

/// The body of an answer, which holds its request until it was taken or given up.
pub(crate) struct HeldBody {
    pub(crate) inner: Body,
    pub(crate) _request: ActiveRequest,
}

impl http_body::Body for HeldBody {
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
