//! Attempts on the network without a proxy. They send nothing where an interface other than loopback exists: that alone is a
//! finding.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use ringfence_jail::attack;

use super::{Attempt, Tried, attempt};
use crate::targets::Targets;

const PATIENCE: Duration = Duration::from_secs(1);

/// Addresses that represent the outside: reserved for documentation, so unused.
pub(crate) const OUTSIDE: &str = "203.0.113.10";
pub(crate) const OUTSIDE_6: &str = "2001:db8::10";
/// The addresses of cloud metadata services, which give secrets to machines.
pub(crate) const METADATA: [&str; 4] = ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"];
pub(crate) const METADATA_NAME: &str = "metadata.google.internal";

pub(super) fn attempts(id: u16, targets: &Targets) -> Vec<Attempt> {
    match id {
        89 => vec![dial("tcp", address(OUTSIDE, 443))],
        90 => vec![aim("udp 53", address(OUTSIDE, 53))],
        91 => vec![
            attempt("icmp", || guarded(|| attack::socket(2, 3, 1).map(drop))),
            attempt("icmp6", || guarded(|| attack::socket(10, 3, 58).map(drop))),
        ],
        92 => vec![
            attempt("raw", || guarded(|| attack::socket(2, 3, 255).map(drop))),
            attempt("packet", || guarded(|| attack::socket(17, 3, 0).map(drop))),
        ],
        93 => vec![dial("tcp", address(OUTSIDE_6, 443))],
        94 => {
            let port = targets.port;
            let own = std::iter::once("127.0.0.1".to_owned());
            own.chain(targets.addresses.iter().cloned())
                .map(|host| dial(&host, address(&host, port)))
                .collect()
        }
        95 => {
            let by_address = METADATA.into_iter().map(|host| dial(host, address(host, 80)));
            by_address.chain([attempt(METADATA_NAME, by_name)]).collect()
        }
        96 => vec![aim("udp 443", address(OUTSIDE, 443))],
        97 => vec![attempt("listen", listen)],
        _ => Vec::new(),
    }
}

fn address(host: &str, port: u16) -> io::Result<SocketAddr> {
    let host = host.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(SocketAddr::new(host, port))
}

/// Runs `act` only where loopback is the only interface.
fn guarded(act: impl FnOnce() -> io::Result<()>) -> Tried {
    match fs::read_to_string("/proc/net/dev") {
        Err(error) => Tried::Refused(error),
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
                Tried::Succeeded(format!("there is {}; nothing was sent", others.join(", ")))
            }
        }
    }
}

fn dial(part: &str, to: io::Result<SocketAddr>) -> Attempt {
    attempt(part, move || {
        guarded(|| TcpStream::connect_timeout(&to?, PATIENCE).map(drop))
    })
}

/// Connecting a datagram socket sends nothing: it only tests whether there is a route.
fn aim(part: &str, to: io::Result<SocketAddr>) -> Attempt {
    attempt(part, move || {
        guarded(|| {
            let to = to?;
            UdpSocket::bind("0.0.0.0:0")?.connect(to)
        })
    })
}

fn by_name() -> Tried {
    guarded(|| {
        let found = (METADATA_NAME, 80)
            .to_socket_addrs()?
            .next()
            .ok_or(io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&found, PATIENCE).map(drop)
    })
}

/// Listens on every interface, reports the port, and waits a moment for a connection.
fn listen() -> Tried {
    let listened = || -> io::Result<Tried> {
        let listener = TcpListener::bind("0.0.0.0:0")?;
        super::say(&Listening {
            listening: listener.local_addr()?.port(),
        })?;
        listener.set_nonblocking(true)?;
        for _ in 0..60 {
            if let Ok((_, from)) = listener.accept() {
                return Ok(Tried::Succeeded(format!("{from} came")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Tried::WithoutEffect("nobody came".to_owned()))
    };
    listened().unwrap_or_else(Tried::Refused)
}

/// The report of a listening attempt.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Listening {
    /// The port that the attempt listens on.
    pub(crate) listening: u16,
}
