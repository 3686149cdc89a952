//! Egress without a sandbox: the gateway's proxy on a loopback port of the test internet.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use ringfence_gateway::{Egress, EgressSettings};
use ringfence_journal::{ContentHash, Event, ExecutionId, RecordError, RecordPosition, Recorder, SessionId};
use ringfence_policy::{Ceiling, Draft, Policy};
use tokio::net::TcpListener;

/// A recorder that keeps events in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryRecorder(Arc<Mutex<Vec<Event>>>);

impl MemoryRecorder {
    /// All recorded events so far.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Recorder for MemoryRecorder {
    async fn record(&self, event: Event) -> Result<RecordPosition, RecordError> {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        Ok(RecordPosition {
            seq: events.len() as u64,
            hash: ContentHash::digest(b""),
        })
    }
}

/// Parses a policy from its text.
pub fn policy(text: &str) -> Result<Arc<Policy>> {
    Ok(Arc::new(Draft::parse(text, "test")?.under(&Ceiling::unlimited())?))
}

/// Serves the proxy of `policy` on a port, with the machine's own resolver and roots.
pub async fn serve(policy: Arc<Policy>) -> Result<(SocketAddr, Arc<Egress>, MemoryRecorder)> {
    let book = MemoryRecorder::default();
    let ids = (SessionId::generate()?, ExecutionId::generate()?);
    let egress = Arc::new(Egress::new(EgressSettings::system(), policy, book.clone(), ids));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let door = Arc::clone(&egress);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let door = Arc::clone(&door);
            tokio::spawn(async move { door.serve(stream).await });
        }
    });
    Ok((at, egress, book))
}
