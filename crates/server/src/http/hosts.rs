//! The host names that the server answers to. This stops a web page whose own name resolves to this server.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::problem::HttpProblem;

/// The names of the local machine, on any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowed names in `Host`, and the allowed pages in `Origin`.
#[derive(Debug, Clone)]
pub struct Hosts {
    names: Vec<String>,
    origins: Vec<String>,
}

/// An invalid name or origin in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// The text is not a host name.
    #[error("`{0}` is no host name; write it like `ringfence.example.org`")]
    Name(String),
    /// The text is not an origin.
    #[error("`{0}` is no origin; write it like `https://console.example.org`")]
    Origin(String),
}

impl Hosts {
    /// Allows the names of this machine, the address of the listener, and what the operator adds.
    pub fn new(address: SocketAddr, names: &[String], origins: &[String]) -> Result<Hosts, HostsError> {
        let mut all: Vec<String> = LOOPBACK.map(str::to_owned).into();
        // `0.0.0.0` is an address to listen on, and never a name that a page may use.
        if !address.ip().is_unspecified() {
            all.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        for name in names {
            let found = parse_host(name).filter(|_| !name.contains(':') || name.starts_with('['));
            all.push(found.ok_or_else(|| HostsError::Name(name.clone()))?);
        }
        let origins = origins.iter().map(|origin| {
            let parsed = WebOrigin::parse(origin).ok_or_else(|| HostsError::Origin(origin.clone()))?;
            Ok(parsed.to_text())
        });
        Ok(Hosts {
            names: all,
            origins: origins.collect::<Result<_, _>>()?,
        })
    }

    /// Refuses a request for another host, or from a web page of another origin.
    pub(crate) fn check_request(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpProblem> {
        let mut hosts = headers.get_all(HOST).iter();
        let given = hosts.next().filter(|_| hosts.next().is_none());
        let host = given.and_then(|value| value.to_str().ok()).and_then(parse_host);
        let named = uri
            .authority()
            .is_none_or(|authority| parse_host(authority.as_str()) == host);
        match host {
            Some(host) if named && self.names.contains(&host) => {}
            _ => return Err(host_problem("http.host", "Host", given, "listen.hosts")),
        }
        for origin in headers.get_all(ORIGIN) {
            let parsed = origin.to_str().ok().and_then(WebOrigin::parse);
            if !parsed.is_some_and(|origin| self.is_allowed_origin(&origin)) {
                return Err(host_problem("http.origin", "Origin", Some(origin), "listen.origins"));
            }
        }
        Ok(())
    }

    /// The names for the MCP endpoint, which checks them again.
    pub(crate) fn names(&self) -> Vec<String> {
        let bare = |name: &String| name.trim_start_matches('[').trim_end_matches(']').to_owned();
        self.names.iter().map(bare).collect()
    }

    /// The origins for the MCP endpoint, which checks them again.
    pub(crate) fn origins(&self) -> Vec<String> {
        let local = LOOPBACK
            .iter()
            .flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}:*")));
        local.chain(self.origins.iter().cloned()).collect()
    }

    /// Whether the operator listed this origin.
    pub(crate) fn is_listed_origin(&self, origin: &str) -> bool {
        WebOrigin::parse(origin).is_some_and(|origin| self.origins.contains(&origin.to_text()))
    }

    fn is_allowed_origin(&self, origin: &WebOrigin) -> bool {
        LOOPBACK.contains(&origin.host.as_str()) || self.origins.contains(&origin.to_text())
    }
}

fn host_problem(code: &'static str, header: &str, value: Option<&HeaderValue>, key: &'static str) -> HttpProblem {
    let shown = value.map_or_else(
        || "none, or several".to_owned(),
        |value| value.to_str().unwrap_or("…").chars().take(100).collect(),
    );
    let message = format!("`{header}: {shown}` is not a name that this server answers to");
    HttpProblem::new(StatusCode::FORBIDDEN, code, message)
        .with_rule(key)
        .with_hint(format!(
            "use a name of this machine, or add it to `{key}` in `ringfence.yaml`"
        ))
        .closing_connection()
}

/// The lower-case host of `host[:port]`; `None` for any other form.
fn parse_host(text: &str) -> Option<String> {
    let authority: Authority = text.parse().ok()?;
    let plain = !text.contains('@') && !authority.host().is_empty();
    let port = text.get(authority.host().len()..)?;
    let port = port.is_empty() || authority.port_u16().is_some();
    (plain && port).then(|| authority.host().to_ascii_lowercase())
}

/// The origin of a web page.
struct WebOrigin {
    scheme: &'static str,
    host: String,
    port: u16,
}

impl WebOrigin {
    fn parse(text: &str) -> Option<WebOrigin> {
        let (scheme, usual, rest) = match text.split_once("://")? {
            ("http", rest) => ("http", 80, rest),
            ("https", rest) => ("https", 443, rest),
            _ => return None,
        };
        let host = parse_host(rest)?;
        let authority: Authority = rest.parse().ok()?;
        Some(WebOrigin {
            scheme,
            host,
            port: authority.port_u16().unwrap_or(usual),
        })
    }

    fn to_text(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.host, self.port)
    }
}

#[cfg(test)]
mod tests;
