//! The names that exist, the addresses that are open, and the text that all others serve.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::site::SiteHandler;

/// The address of the resolver.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(9, 9, 9, 9);
/// A public address whose servers answer correctly.
pub const ALLOWED: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
/// The IPv6 address whose servers answer correctly.
pub const ALLOWED_6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2606, 0x2800, 0x220, 1, 0, 0, 0, 0x34));
/// A public address that belongs to an attacker who collects data.
pub const EVIL: IpAddr = IpAddr::V4(Ipv4Addr::new(185, 199, 108, 66));
/// A public address whose certificates no trusted authority signed.
pub const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 99));

/// A public address whose servers parse heads leniently.
pub const LOOSE: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 77));

/// The resolver's reply to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsReply {
    /// The name has these addresses.
    At(Vec<IpAddr>),
    /// The name is an alias of another.
    Alias(String),
    /// The resolver reports a failure.
    Fails,
    /// The resolver never replies.
    Silent,
}

/// The names, addresses and sites of a fake internet.
#[derive(Clone)]
pub struct FakeWorld {
    names: BTreeMap<String, Arc<NameReplies>>,
    others: Option<IpAddr>,
    open: BTreeSet<IpAddr>,
    secret: String,
    site: Option<SiteHandler>,
}

/// The replies of a name in order, the last one forever; each kind of record counts for itself.
#[derive(Debug)]
struct NameReplies {
    replies: Vec<DnsReply>,
    so_far: [AtomicUsize; 2],
}

impl fmt::Debug for FakeWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("names", &self.names)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl FakeWorld {
    /// A world where [`ALLOWED`], [`ALLOWED_6`], [`LOOSE`] and [`STRANGER`] answer, and every other address serves `secret`.
    pub fn new(secret: impl Into<String>) -> FakeWorld {
        FakeWorld {
            names: BTreeMap::new(),
            others: None,
            open: BTreeSet::from([ALLOWED, ALLOWED_6, LOOSE, STRANGER]),
            secret: secret.into(),
            site: None,
        }
    }

    /// Adds a name at one address. `*.` in front stands for every name below.
    #[must_use]
    pub fn with_name(self, name: &str, at: IpAddr) -> FakeWorld {
        self.with_replies(name, vec![DnsReply::At(vec![at])])
    }

    /// Adds a name whose replies come in order, the last one forever.
    #[must_use]
    pub fn with_replies(mut self, name: &str, replies: Vec<DnsReply>) -> FakeWorld {
        let told = NameReplies {
            replies,
            so_far: [AtomicUsize::new(0), AtomicUsize::new(0)],
        };
        self.names.insert(name.to_ascii_lowercase(), Arc::new(told));
        self
    }

    /// Sets the address of every name that was not added.
    #[must_use]
    pub fn with_default(mut self, at: IpAddr) -> FakeWorld {
        self.others = Some(at);
        self
    }

    /// Adds one more address that answers correctly.
    #[must_use]
    pub fn with_open_address(mut self, address: IpAddr) -> FakeWorld {
        self.open.insert(address);
        self
    }

    /// Sets what the open addresses serve before their own pages.
    #[must_use]
    pub fn with_site(mut self, site: SiteHandler) -> FakeWorld {
        self.site = Some(site);
        self
    }

    pub(super) fn is_open(&self, address: IpAddr) -> bool {
        self.open.contains(&address)
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    pub(super) fn site_handler(&self) -> Option<&SiteHandler> {
        self.site.as_ref()
    }

    /// The next reply of a name; `None` if the name does not exist.
    pub(super) fn next_reply(&self, name: &str, six: bool) -> Option<DnsReply> {
        let above = name.split_once('.').map(|(_, above)| format!("*.{above}"));
        let Some(told) = self.names.get(name).or_else(|| self.names.get(&above?)) else {
            return self.others.map(|at| DnsReply::At(vec![at]));
        };
        let turn = told.so_far[usize::from(six)].fetch_add(1, Ordering::Relaxed);
        told.replies.get(turn).or_else(|| told.replies.last()).cloned()
    }
}
