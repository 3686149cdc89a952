//! Names to addresses, once per connection. The whole chain of names is told, so that every one of them can be judged.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData};
use ringfence_policy::Host;

use super::refuse;
use crate::refusal::Refusal;

/// The longest that a name may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// One question to one server.
const QUESTION: Duration = Duration::from_secs(2);

/// Who is asked for addresses.
#[derive(Debug, Clone)]
pub struct Resolver {
    place: Option<SocketAddr>,
    /// Made when it is first needed; what could not be made is said each time.
    made: Arc<OnceLock<Result<TokioResolver, String>>>,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) addresses: Vec<IpAddr>,
    /// The names that it is another name of.
    pub(super) aliases: Vec<String>,
}

impl Resolver {
    /// The machine's own way: its name servers and its hosts file.
    pub fn system() -> Resolver {
        Resolver {
            place: None,
            made: Arc::default(),
        }
    }

    /// One name server, and no hosts file.
    pub fn at(place: SocketAddr) -> Resolver {
        Resolver {
            place: Some(place),
            made: Arc::default(),
        }
    }

    fn resolver(&self) -> Result<&TokioResolver, &str> {
        let made = self
            .made
            .get_or_init(|| make(self.place).map_err(|error| error.to_string()));
        made.as_ref().map_err(String::as_str)
    }

    /// Every address of a host.
    pub(super) async fn resolve(&self, host: &Host) -> Result<Resolved, Refusal> {
        let name = match host {
            Host::Ip(address) => {
                return Ok(Resolved {
                    addresses: vec![*address],
                    aliases: Vec::new(),
                });
            }
            Host::Name(name) => name.as_str(),
        };
        let failed = |why: &str| refuse::dns(name, why);
        // The final dot: exactly this name, never one below a search domain.
        let absolute = Name::from_ascii(format!("{name}.")).map_err(|error| failed(&error.to_string()))?;
        let resolver = self.resolver().map_err(failed)?;
        let found = tokio::time::timeout(PATIENCE, resolver.lookup_ip(absolute)).await;
        let found = found.map_err(|_| failed("the name server does not answer"))?;
        let found = found.map_err(|error| failed(&error.to_string()))?;
        let mut stands_for = Resolved {
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

fn make(place: Option<SocketAddr>) -> Result<TokioResolver, hickory_resolver::net::NetError> {
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
    options.timeout = QUESTION;
    options.attempts = 1;
    options.preserve_intermediates = true;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    if place.is_some() {
        options.use_hosts_file = ResolveHosts::Never;
    }
    builder.build()
}
