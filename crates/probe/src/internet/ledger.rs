//! The traffic log: which addresses were dialled, which requests arrived, and which names were looked up.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::site::Asked;

/// A connection that a client made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The address that the client dialled.
    pub to: SocketAddr,
}

/// A name that a client looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The name in lower case, without its last dot.
    pub name: String,
    /// The kind of record, by its number.
    pub kind: u16,
}

/// All traffic since the start or since it was last cleared.
#[derive(Debug, Default)]
pub struct Ledger {
    arrivals: Mutex<Vec<Arrival>>,
    asked: Mutex<Vec<Asked>>,
    queries: Mutex<Vec<Query>>,
}

fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // A panic cannot leave a list half changed.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// All connections, in their order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        locked(&self.arrivals).clone()
    }

    /// All requests, in their order.
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }

    /// All queries for names, in their order.
    pub fn queries(&self) -> Vec<Query> {
        locked(&self.queries).clone()
    }

    /// Removes all entries from the log.
    pub fn clear(&self) {
        locked(&self.arrivals).clear();
        locked(&self.asked).clear();
        locked(&self.queries).clear();
    }

    pub(super) fn arrive(&self, to: SocketAddr) {
        locked(&self.arrivals).push(Arrival { to });
    }

    pub(super) fn ask(&self, asked: Asked) {
        locked(&self.asked).push(asked);
    }

    pub(super) fn query(&self, query: Query) {
        locked(&self.queries).push(query);
    }
}
