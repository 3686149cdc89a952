//! Who came to which address, what was asked there, and which names were looked up.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::site::Asked;

/// A connection that somebody made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The address that was dialled.
    pub to: SocketAddr,
}

/// A name that somebody looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The name, in lower case, without its last dot.
    pub name: String,
    /// The kind of record, by its number.
    pub kind: u16,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Ledger {
    arrivals: Mutex<Vec<Arrival>>,
    asked: Mutex<Vec<Asked>>,
    queries: Mutex<Vec<Query>>,
}

fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // A list that somebody panicked beside is still a list.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Connections, in their order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        locked(&self.arrivals).clone()
    }

    /// Requests, in their order.
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }

    /// Names, in their order.
    pub fn queries(&self) -> Vec<Query> {
        locked(&self.queries).clone()
    }

    /// Forgets everything.
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
