//! The traffic log: which addresses were dialled, which requests arrived, and which names were looked up.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::site::SiteRequest;

/// A connection that a client made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The address that the client dialled.
    pub to: SocketAddr,
}

/// A name that a client looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name in lower case, without its last dot.
    pub name: String,
    /// The kind of record, by its number.
    pub kind: u16,
}

/// All traffic since the start or since it was last cleared.
#[derive(Debug, Default)]
pub struct TrafficLog {
    arrivals: Mutex<Vec<Arrival>>,
    asked: Mutex<Vec<SiteRequest>>,
    queries: Mutex<Vec<DnsQuery>>,
}

fn lock_list<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // A panic cannot leave a list half changed.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrafficLog {
    /// All connections, in their order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock_list(&self.arrivals).clone()
    }

    /// All requests, in their order.
    pub fn requests(&self) -> Vec<SiteRequest> {
        lock_list(&self.asked).clone()
    }

    /// All queries for names, in their order.
    pub fn queries(&self) -> Vec<DnsQuery> {
        lock_list(&self.queries).clone()
    }

    /// Removes all entries from the log.
    pub fn clear(&self) {
        lock_list(&self.arrivals).clear();
        lock_list(&self.asked).clear();
        lock_list(&self.queries).clear();
    }

    pub(super) fn add_arrival(&self, to: SocketAddr) {
        lock_list(&self.arrivals).push(Arrival { to });
    }

    pub(super) fn add_request(&self, asked: SiteRequest) {
        lock_list(&self.asked).push(asked);
    }

    pub(super) fn add_query(&self, query: DnsQuery) {
        lock_list(&self.queries).push(query);
    }
}
