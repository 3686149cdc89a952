//! Attempts on sockets of the machine's own services.

use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use ringfence_jail::attack;

use super::{Attempt, Tried, attempt, judge_bytes};
use crate::targets::Targets;

/// Sockets of container engines.
pub(crate) const ENGINES: [&str; 5] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
];

/// Sockets of a user's desktop session.
pub(crate) const SESSION: [&str; 6] = [
    "/tmp/ssh-agent/agent.1",
    "/run/user/1000/gnupg/S.gpg-agent",
    "/run/user/1000/wayland-0",
    "/run/user/1000/pulse/native",
    "/run/user/1000/bus",
    "/tmp/.X11-unix/X0",
];

pub(super) fn attempts(id: u16, targets: &Targets) -> Vec<Attempt> {
    let connect = |name: &str, path: String| attempt(name, move || UnixStream::connect(&path).map(drop));
    match id {
        141 => ENGINES
            .into_iter()
            .map(|name| connect(name, targets.system(name)))
            .collect(),
        142 => {
            let (name, marker) = (targets.abstract_socket.clone(), targets.marker.clone());
            vec![attempt("abstract", move || {
                secret_at(SocketAddr::from_abstract_name(&name), &marker)
            })]
        }
        143 => ["left.sock", "home/project/service.sock"]
            .into_iter()
            .map(|name| {
                let (path, marker) = (format!("{}/{name}", targets.shown), targets.marker.clone());
                attempt(name, move || secret_at(SocketAddr::from_pathname(&path), &marker))
            })
            .chain(std::iter::once({
                let (path, marker) = (targets.socket.clone(), targets.marker.clone());
                attempt("outside every mount", move || {
                    secret_at(SocketAddr::from_pathname(&path), &marker)
                })
            }))
            .collect(),
        144 => (0..3).map(passed_descriptors).collect(),
        145 => vec![attempt("socket", || attack::socket(40, 1, 0).map(drop))],
        146 => SESSION
            .into_iter()
            .map(|name| connect(name, targets.system(name)))
            .collect(),
        _ => Vec::new(),
    }
}

fn secret_at(address: io::Result<SocketAddr>, marker: &str) -> Tried {
    let read = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect_addr(&address?)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut bytes = Vec::new();
        // The connection is the finding, whether or not the service sends something in time.
        let _ = stream.read_to_end(&mut bytes);
        Ok(bytes)
    };
    match read() {
        Err(error) => Tried::Refused(error),
        Ok(bytes) => match judge_bytes(&bytes, marker) {
            Tried::WithoutEffect(_) => Tried::Succeeded("connected".to_owned()),
            other @ (Tried::Succeeded(_) | Tried::Refused(_)) => other,
        },
    }
}

/// Whether a standard stream is a socket that passes descriptors.
fn passed_descriptors(number: usize) -> Attempt {
    attempt(format!("descriptor {number}"), move || {
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        let stream = [input.as_fd(), output.as_fd(), error.as_fd()][number];
        let mut buffer = [0; 64];
        match ringfence_jail::socket::receive(stream, &mut buffer) {
            Err(error) => Tried::Refused(error),
            Ok((_, descriptors)) if descriptors.is_empty() => Tried::WithoutEffect("nothing was passed".to_owned()),
            Ok((_, descriptors)) => Tried::Succeeded(format!("{} descriptors", descriptors.len())),
        }
    })
}
