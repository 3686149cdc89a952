//! Classification of IP addresses. Only public addresses are reachable by name alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::host::embedded_ipv4;

/// The kind of network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// A global unicast address, reachable without a rule's `addresses`.
    Public,
    /// A private network (RFC 1918).
    Private,
    /// Shared address space for carrier-grade NAT, `100.64.0.0/10`.
    Shared,
    /// IPv6 unique local, `fc00::/7`.
    UniqueLocal,
    /// Networks for benchmark tests, `198.18.0.0/15` and `2001:2::/48`.
    Benchmark,
    /// The host itself, `127.0.0.0/8` and `::1`.
    Loopback,
    /// The local link, `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// The metadata service of a cloud provider.
    Metadata,
    /// Multicast groups, `224.0.0.0/4` and `ff00::/8`.
    Multicast,
    /// The limited broadcast address, `255.255.255.255`.
    Broadcast,
    /// The unspecified address and "this network", `0.0.0.0/8` and `::`.
    Unspecified,
    /// Networks for documentation and examples, such as `192.0.2.0/24`.
    Documentation,
    /// An IPv4 address embedded in an IPv6 address: mapped, compatible, NAT64, 6to4, Teredo.
    Embedded,
    /// Any other address that is reserved or not allocated.
    Reserved,
}

impl AddressKind {
    /// Classifies an address by the special-purpose ranges of IPv4 and IPv6.
    pub fn classify(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => classify_ipv4(address),
            IpAddr::V6(address) => classify_ipv6(address),
        }
    }

    /// Whether a rule's `addresses` may open this kind; loopback, link-local and metadata can never be opened.
    pub const fn can_be_opened(self) -> bool {
        matches!(self, Self::Private | Self::Shared | Self::UniqueLocal | Self::Benchmark)
    }

    /// The kind as messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Shared => "carrier-grade translation",
            Self::UniqueLocal => "unique local",
            Self::Benchmark => "benchmark",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata service",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Unspecified => "unspecified",
            Self::Documentation => "documentation",
            Self::Embedded => "embedded IPv4",
            Self::Reserved => "reserved",
        }
    }
}

const fn net4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn net6(high: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(high, second, third, 0, 0, 0, 0, 0), prefix)
}

const METADATA_IPV4: [Ipv4Addr; 5] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

const METADATA_IPV6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

const IPV4_RANGES: [(Ipv4Net, AddressKind); 16] = [
    (net4(255, 255, 255, 255, 32), AddressKind::Broadcast),
    (net4(0, 0, 0, 0, 8), AddressKind::Unspecified),
    (net4(10, 0, 0, 0, 8), AddressKind::Private),
    (net4(100, 64, 0, 0, 10), AddressKind::Shared),
    (net4(127, 0, 0, 0, 8), AddressKind::Loopback),
    (net4(169, 254, 0, 0, 16), AddressKind::LinkLocal),
    (net4(172, 16, 0, 0, 12), AddressKind::Private),
    (net4(192, 0, 0, 0, 24), AddressKind::Reserved),
    (net4(192, 0, 2, 0, 24), AddressKind::Documentation),
    (net4(192, 88, 99, 0, 24), AddressKind::Embedded),
    (net4(192, 168, 0, 0, 16), AddressKind::Private),
    (net4(198, 18, 0, 0, 15), AddressKind::Benchmark),
    (net4(198, 51, 100, 0, 24), AddressKind::Documentation),
    (net4(203, 0, 113, 0, 24), AddressKind::Documentation),
    (net4(224, 0, 0, 0, 4), AddressKind::Multicast),
    (net4(240, 0, 0, 0, 4), AddressKind::Reserved),
];

const IPV6_RANGES: [(Ipv6Net, AddressKind); 13] = [
    (net6(0x64, 0xff9b, 0, 96), AddressKind::Embedded),
    (net6(0x64, 0xff9b, 1, 48), AddressKind::Embedded),
    (net6(0x2001, 0, 0, 32), AddressKind::Embedded),
    (net6(0x2001, 2, 0, 48), AddressKind::Benchmark),
    (net6(0x2001, 0xdb8, 0, 32), AddressKind::Documentation),
    (net6(0x2001, 0, 0, 23), AddressKind::Reserved),
    (net6(0x2002, 0, 0, 16), AddressKind::Embedded),
    (net6(0x3fff, 0, 0, 20), AddressKind::Documentation),
    (net6(0xfc00, 0, 0, 7), AddressKind::UniqueLocal),
    (net6(0xfe80, 0, 0, 10), AddressKind::LinkLocal),
    (net6(0xfec0, 0, 0, 10), AddressKind::Reserved),
    (net6(0xff00, 0, 0, 8), AddressKind::Multicast),
    // Only global unicast space is allocated. This entry must stay last, because the first match wins.
    (net6(0x2000, 0, 0, 3), AddressKind::Public),
];

fn classify_ipv4(address: Ipv4Addr) -> AddressKind {
    if METADATA_IPV4.contains(&address) {
        return AddressKind::Metadata;
    }
    IPV4_RANGES
        .iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(AddressKind::Public, |(_, kind)| *kind)
}

fn classify_ipv6(address: Ipv6Addr) -> AddressKind {
    if METADATA_IPV6.contains(&address) {
        return AddressKind::Metadata;
    }
    if address.is_unspecified() {
        return AddressKind::Unspecified;
    }
    if address.is_loopback() {
        return AddressKind::Loopback;
    }
    if embedded_ipv4(address).is_some() {
        return AddressKind::Embedded;
    }
    IPV6_RANGES
        .iter()
        .find(|(net, _)| net.contains(&address))
        .map_or(AddressKind::Reserved, |(_, kind)| *kind)
}

/// Whether `addresses` can never open any part of a network.
pub(crate) fn is_never_openable(net: &IpNet) -> bool {
    let ends = [net.network(), net.broadcast()].map(AddressKind::classify);
    let closed = |kind: AddressKind| kind != AddressKind::Public && !kind.can_be_opened();
    // The kinds are contiguous ranges: if both ends are of the same closed kind, so is everything between them.
    closed(ends[0]) && (ends[0] == ends[1] || net.network() == net.broadcast())
}

#[cfg(test)]
mod tests;
