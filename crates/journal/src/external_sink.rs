//! The port for external sinks: delivers committed records to a destination besides the journal.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Record, SharedCause};

/// Delivers committed records to an external destination. It tries once; the caller waits, retries and counts failures.
pub trait ExternalSink: fmt::Debug + Send + Sync {
    /// The name in logs and errors, such as `` webhook `https://audit.example.org` ``; it contains no secret.
    fn name(&self) -> &str;

    /// Delivers records in order and returns once the destination has accepted them.
    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> DeliveryFuture<'a>;
}

/// The future of one delivery.
pub type DeliveryFuture<'a> = Pin<Box<dyn Future<Output = Result<(), DeliveryFailure>> + Send + 'a>>;

/// Why a delivery failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeliveryFailure {
    /// The destination may accept the same records later.
    #[error("not taken now")]
    Later(#[source] SharedCause),
    /// The destination rejects `count` of the records for good; it accepted the others.
    #[error("{count} not wanted")]
    Never {
        /// How many records were rejected.
        count: usize,
        /// Why they were rejected.
        #[source]
        source: SharedCause,
    },
}
