//! Attempts on the network without a proxy. They send nothing where an interface other than loopback exists: that alone is a
//! finding.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use ringfence_jail::attack;

use super::{AttemptResult, ProbeAttempt, new_attempt};
use crate::targets::AttemptTargets;

const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Addresses that represent the outside: reserved for documentation, so unused.
pub(crate) const OUTSIDE_IPV4: &str = "203.0.113.10";
pub(crate) const OUTSIDE_IPV6: &str = "2001:db8::10";
/// The addresses of cloud metadata services, which give secrets to machines.
pub(crate) const METADATA_ADDRESSES: [&str; 4] =
    ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"];
pub(crate) const METADATA_NAME: &str = "metadata.google.internal";

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        89 => vec![dial_attempt("tcp", resolve_host(OUTSIDE_IPV4, 443))],
        90 => vec![datagram_attempt("udp 53", resolve_host(OUTSIDE_IPV4, 53))],
        91 => vec![
            new_attempt("icmp", || only_with_loopback(|| attack::socket(2, 3, 1).map(drop))),
            new_attempt("icmp6", || only_with_loopback(|| attack::socket(10, 3, 58).map(drop))),
        ],
        92 => vec![
            new_attempt("raw", || only_with_loopback(|| attack::socket(2, 3, 255).map(drop))),
            new_attempt("packet", || only_with_loopback(|| attack::socket(17, 3, 0).map(drop))),
        ],
        93 => vec![dial_attempt("tcp", resolve_host(OUTSIDE_IPV6, 443))],
        94 => {
            let port = targets.port;
            let own = std::iter::once("127.0.0.1".to_owned());
            own.chain(targets.addresses.iter().cloned())
                .map(|host| dial_attempt(&host, resolve_host(&host, port)))
                .collect()
        }
        95 => {
            let by_address = METADATA_ADDRESSES
                .into_iter()
                .map(|host| dial_attempt(host, resolve_host(host, 80)));
            by_address
                .chain([new_attempt(METADATA_NAME, resolve_and_dial)])
                .collect()
        }
        96 => vec![datagram_attempt("udp 443", resolve_host(OUTSIDE_IPV4, 443))],
        97 => vec![new_attempt("listen", listen_everywhere)],
        _ => Vec::new(),
    }
}

fn resolve_host(host: &str, port: u16) -> io::Result<SocketAddr> {
    let host = host.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(SocketAddr::new(host, port))
}

/// Runs `act` only where loopback is the only interface.
fn only_with_loopback(act: impl FnOnce() -> io::Result<()>) -> AttemptResult {
    match fs::read_to_string("/proc/net/dev") {
        Err(error) => AttemptResult::Refused(error),
        Ok(list) => {
            let names = list
                .lines()
                .skip(2)
                .filter_map(|line| line.split_once(':'))
                .map(|(name, _)| name.trim());
            let others: Vec<&str> = names.filter(|name| *name != "lo").collect();
            if others.is_empty() {
                act().into()
            } else {
                AttemptResult::Succeeded(format!("there is {}; nothing was sent", others.join(", ")))
            }
        }
    }
}

fn dial_attempt(part: &str, to: io::Result<SocketAddr>) -> ProbeAttempt {
    new_attempt(part, move || {
        only_with_loopback(|| TcpStream::connect_timeout(&to?, DIAL_TIMEOUT).map(drop))
    })
}

/// Connecting a datagram socket sends nothing: it only tests whether there is a route.
fn datagram_attempt(part: &str, to: io::Result<SocketAddr>) -> ProbeAttempt {
    new_attempt(part, move || {
        only_with_loopback(|| {
            let to = to?;
            UdpSocket::bind("0.0.0.0:0")?.connect(to)
        })
    })
}

fn resolve_and_dial() -> AttemptResult {
    only_with_loopback(|| {
        let found = (METADATA_NAME, 80)
            .to_socket_addrs()?
            .next()
            .ok_or(io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&found, DIAL_TIMEOUT).map(drop)
    })
}

/// Listens on every interface, reports the port, and waits a moment for a connection.
fn listen_everywhere() -> AttemptResult {
    let listened = || -> io::Result<AttemptResult> {
        let listener = TcpListener::bind("0.0.0.0:0")?;
        super::print_json_line(&ListeningPort {
            listening: listener.local_addr()?.port(),
        })?;
        listener.set_nonblocking(true)?;
        for _ in 0..60 {
            if let Ok((_, from)) = listener.accept() {
                return Ok(AttemptResult::Succeeded(format!("{from} came")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(AttemptResult::WithoutEffect("nobody came".to_owned()))
    };
    listened().unwrap_or_else(AttemptResult::Refused)
}

/// The report of a listening attempt.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct ListeningPort {
    /// The port that the attempt listens on.
    pub(crate) listening: u16,
}
