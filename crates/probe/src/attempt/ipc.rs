//! Attempts on sockets of the machine's own services.

use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use ringfence_jail::attack;

use super::{AttemptResult, ProbeAttempt, look_for_secret, new_attempt};
use crate::targets::AttemptTargets;

/// Sockets of container engines.
pub(crate) const ENGINE_SOCKETS: [&str; 5] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
];

/// Sockets of a user's desktop session.
pub(crate) const SESSION_SOCKETS: [&str; 6] = [
    "/tmp/ssh-agent/agent.1",
    "/run/user/1000/gnupg/S.gpg-agent",
    "/run/user/1000/wayland-0",
    "/run/user/1000/pulse/native",
    "/run/user/1000/bus",
    "/tmp/.X11-unix/X0",
];

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let connect = |name: &str, path: String| new_attempt(name, move || UnixStream::connect(&path).map(drop));
    match id {
        141 => ENGINE_SOCKETS
            .into_iter()
            .map(|name| connect(name, targets.system_path(name)))
            .collect(),
        142 => {
            let (name, marker) = (targets.abstract_socket.clone(), targets.marker.clone());
            vec![new_attempt("abstract", move || {
                look_for_secret_at(SocketAddr::from_abstract_name(&name), &marker)
            })]
        }
        143 => ["left.sock", "home/project/service.sock"]
            .into_iter()
            .map(|name| {
                let (path, marker) = (format!("{}/{name}", targets.shown), targets.marker.clone());
                new_attempt(name, move || {
                    look_for_secret_at(SocketAddr::from_pathname(&path), &marker)
                })
            })
            .chain(std::iter::once({
                let (path, marker) = (targets.socket.clone(), targets.marker.clone());
                new_attempt("outside every mount", move || {
                    look_for_secret_at(SocketAddr::from_pathname(&path), &marker)
                })
            }))
            .collect(),
        144 => (0..3).map(passed_descriptors_attempt).collect(),
        145 => vec![new_attempt("socket", || attack::socket(40, 1, 0).map(drop))],
        146 => SESSION_SOCKETS
            .into_iter()
            .map(|name| connect(name, targets.system_path(name)))
            .collect(),
        _ => Vec::new(),
    }
}

fn look_for_secret_at(address: io::Result<SocketAddr>, marker: &str) -> AttemptResult {
    let read = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect_addr(&address?)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut bytes = Vec::new();
        // The connection is the finding, whether or not the service sends something in time.
        let _ = stream.read_to_end(&mut bytes);
        Ok(bytes)
    };
    match read() {
        Err(error) => AttemptResult::Refused(error),
        Ok(bytes) => match look_for_secret(&bytes, marker) {
            AttemptResult::WithoutEffect(_) => AttemptResult::Succeeded("connected".to_owned()),
            other @ (AttemptResult::Succeeded(_) | AttemptResult::Refused(_)) => other,
        },
    }
}

/// Whether a standard stream is a socket that passes descriptors.
fn passed_descriptors_attempt(number: usize) -> ProbeAttempt {
    new_attempt(format!("descriptor {number}"), move || {
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        let stream = [input.as_fd(), output.as_fd(), error.as_fd()][number];
        let mut buffer = [0; 64];
        match ringfence_jail::socket::receive(stream, &mut buffer) {
            Err(error) => AttemptResult::Refused(error),
            Ok((_, descriptors)) if descriptors.is_empty() => {
                AttemptResult::WithoutEffect("nothing was passed".to_owned())
            }
            Ok((_, descriptors)) => AttemptResult::Succeeded(format!("{} descriptors", descriptors.len())),
        }
    })
}
