//! Resolves names to addresses, once per connection. The result includes all aliases, so that the policy can check
//! each of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData};
use ringfence_policy::Host;

use super::refuse;
use crate::refusal::RequestRefusal;

/// Most time for resolving one name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most time for one query to one name server.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves host names to addresses.
#[derive(Debug, Clone)]
pub struct DnsResolver {
    place: Option<SocketAddr>,
    /// Created on first use; if that fails, each use returns the error.
    made: Arc<OnceLock<Result<TokioResolver, String>>>,
}

/// The addresses and aliases of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedHost {
    pub(super) addresses: Vec<IpAddr>,
    /// The names in its CNAME chain.
    pub(super) aliases: Vec<String>,
}

impl DnsResolver {
    /// Uses the name servers and the hosts file of this machine.
    pub fn system() -> DnsResolver {
        DnsResolver {
            place: None,
            made: Arc::default(),
        }
    }

    /// Uses one name server, and no hosts file.
    pub fn with_name_server(place: SocketAddr) -> DnsResolver {
        DnsResolver {
            place: Some(place),
            made: Arc::default(),
        }
    }

    fn resolver(&self) -> Result<&TokioResolver, &str> {
        let made = self
            .made
            .get_or_init(|| build_resolver(self.place).map_err(|error| error.to_string()));
        made.as_ref().map_err(String::as_str)
    }

    /// Returns every address of a host.
    pub(super) async fn resolve(&self, host: &Host) -> Result<ResolvedHost, RequestRefusal> {
        let name = match host {
            Host::Ip(address) => {
                return Ok(ResolvedHost {
                    addresses: vec![*address],
                    aliases: Vec::new(),
                });
            }
            Host::Name(name) => name.as_str(),
        };
        let failed = |why: &str| refuse::dns(name, why);
        // The final dot prevents search domains: exactly this name is resolved.
        let absolute = Name::from_ascii(format!("{name}.")).map_err(|error| failed(&error.to_string()))?;
        let resolver = self.resolver().map_err(failed)?;
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, resolver.lookup_ip(absolute)).await;
        let found = found.map_err(|_| refuse::no_name_server(name, "the name servers do not answer"))?;
        let found = found.map_err(|error| lookup_refusal(name, &error))?;
        let mut stands_for = ResolvedHost {
            addresses: Vec::new(),
            aliases: Vec::new(),
        };
        for record in found.as_lookup().answers() {
            if let Some(address) = record.data.ip_addr() {
                if !stands_for.addresses.contains(&address) {
                    stands_for.addresses.push(address);
                }
            } else if let RData::CNAME(alias) = &record.data {
                stands_for.aliases.push(alias.0.to_ascii());
            }
        }
        if stands_for.addresses.is_empty() {
            return Err(failed("it has no address record"));
        }
        Ok(stands_for)
    }
}

/// The refusal of a host whose lookup failed, without the library's own account of the query.
fn lookup_refusal(name: &str, error: &NetError) -> RequestRefusal {
    if error.is_nx_domain() {
        refuse::dns(name, "there is no such host name")
    } else if error.is_no_records_found() {
        refuse::dns(name, "the name servers know no address for it")
    } else {
        tracing::debug!(%error, host = name, "a lookup failed");
        let why = if matches!(error, NetError::Timeout) {
            "the name servers do not answer"
        } else if matches!(error, NetError::NoConnections) {
            "no name server can be reached"
        } else {
            "the name servers gave no usable answer"
        };
        refuse::no_name_server(name, why)
    }
}

fn build_resolver(place: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let mut builder = match place {
        None => TokioResolver::builder_tokio()?,
        Some(place) => {
            let mut ways = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for way in &mut ways {
                way.port = place.port();
            }
            let server = NameServerConfig::new(place.ip(), true, ways.to_vec());
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = 1;
    options.preserve_intermediates = true;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    if place.is_some() {
        options.use_hosts_file = ResolveHosts::Never;
    }
    builder.build()
}

#[cfg(test)]
mod tests;
