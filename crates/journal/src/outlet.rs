//! The port for external sinks: delivers committed records to a destination besides the journal.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Cause, Record};

/// Delivers committed records to an external destination. It tries once; the caller waits, retries and counts failures.
pub trait Outlet: fmt::Debug + Send + Sync {
    /// The name in logs and errors, such as `` webhook `https://audit.example.org` ``; it contains no secret.
    fn name(&self) -> &str;

    /// Delivers records in order and returns once the destination has accepted them.
    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> Delivery<'a>;
}

/// The future of one delivery.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), Undelivered>> + Send + 'a>>;

/// Why a delivery failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Undelivered {
    /// The destination may accept the same records later.
    #[error("not taken now")]
    Later(#[source] Cause),
    /// The destination rejects `count` of the records for good; it accepted the others.
    #[error("{count} not wanted")]
    Never {
        /// How many records were rejected.
        count: usize,
        /// Why they were rejected.
        #[source]
        source: Cause,
    },
}
