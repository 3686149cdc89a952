//! The other port: where records go besides the journal.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Cause, Record};

/// Takes committed records somewhere else. It tries once; whoever holds it waits, tries again and counts.
pub trait Outlet: fmt::Debug + Send + Sync {
    /// What logs and errors call it, such as `` webhook `https://audit.example.org` ``; nothing secret is in it.
    fn name(&self) -> &str;

    /// Hands on records in order, and returns once they are taken.
    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> Delivery<'a>;
}

/// A delivery under way.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), Undelivered>> + Send + 'a>>;

/// Why records were not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Undelivered {
    /// They may be taken when they come again.
    #[error("not taken now")]
    Later(#[source] Cause),
    /// So many of them will not be taken; the others were.
    #[error("{count} not wanted")]
    Never {
        /// How many.
        count: usize,
        /// Why.
        #[source]
        source: Cause,
    },
}
