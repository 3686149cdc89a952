//! Tunnels: CONNECT and SOCKS5. The host is checked before the tunnel is granted, and the traffic must match the
//! grant: TLS for exactly that name, or requests that are checked one by one.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::Target;
use ringfence_policy::{Host, HostRequest, Policy, Scheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Egress;
use super::dial::dial;
use super::generation::Crossing;
use super::judge;
use super::refuse::{self, Denial};
use super::relay::relay;
use super::resolve::Resolved;
use super::rewind::{Rewind, Stream};
use super::serve;
use super::sniff::{self, Hello, Spoken, sniff};
use super::socks;
use super::tls::HANDSHAKE;
use super::upstream::Origin;
use super::want;
use crate::refusal::Refusal;

/// How long a program may take to send its first bytes in a tunnel.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// How long the proxy lingers for the program to read the last bytes.
const PARTING: Duration = Duration::from_secs(2);

/// The protocol that a tunnel was requested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Front {
    Connect,
    Socks,
}

impl Front {
    fn granted(self) -> Vec<u8> {
        match self {
            Front::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
            Front::Socks => socks::reply(socks::Reply::Granted),
        }
    }

    pub(super) fn refused(self, denial: &Denial) -> Vec<u8> {
        match self {
            Front::Connect => denial.bytes(),
            Front::Socks => socks::refusal(denial),
        }
    }
}

/// A request for a tunnel.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) front: Front,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Tunnel {
    fn request(&self, scheme: Scheme) -> HostRequest {
        HostRequest {
            host: self.host.clone(),
            scheme,
            port: self.port,
            method: None,
            path: None,
        }
    }

    fn target(&self, scheme: Scheme) -> Target {
        want::target(scheme, &self.host.to_string(), self.port)
    }

    /// Returns the scheme that the port stands for, where only the port is known.
    fn usual(&self) -> Scheme {
        if self.port == Scheme::Http.port() {
            Scheme::Http
        } else {
            Scheme::Https
        }
    }
}

impl Egress {
    /// Checks a tunnel, grants it, and serves its traffic.
    pub(super) async fn tunnel<S: Stream + 'static>(self: &Arc<Self>, mut stream: Rewind<S>, tunnel: Tunnel) {
        if let Err(denial) = self.grant(&tunnel).await {
            return self.refuse_tunnel(stream, &tunnel, denial).await;
        }
        if !say(&mut stream, &tunnel.front.granted()).await {
            return;
        }
        let Ok(Ok(spoken)) = timeout(FIRST_WORD, sniff(&mut stream)).await else {
            return;
        };
        match spoken {
            Spoken::Silence => {}
            Spoken::Tls(hello) => self.tls(stream, &tunnel, hello).await,
            Spoken::Http => self.http(stream, &tunnel).await,
            Spoken::Unknown => {
                let refusal = refuse::protocol("only TLS and HTTP/1 go through a tunnel");
                self.refused(&tunnel.target(tunnel.usual()), &refusal.into()).await;
            }
        }
    }

    /// Whether the tunnel is allowed, for TLS or for plain HTTP, by name and by every address.
    async fn grant(&self, tunnel: &Tunnel) -> Result<(), Denial> {
        let policy = self.rules().now().policy;
        let (usual, other) = match tunnel.usual() {
            Scheme::Https => (Scheme::Https, Scheme::Http),
            Scheme::Http => (Scheme::Http, Scheme::Https),
        };
        let host = |scheme| self.possible(&policy, &tunnel.request(scheme));
        let allowed = match (host(usual), host(other)) {
            (Ok(()), Ok(())) => vec![usual, other],
            (Ok(()), Err(_)) => vec![usual],
            (Err(_), Ok(())) => vec![other],
            (Err(refusal), Err(_)) => return Err(refusal.into()),
        };
        let resolved = self.resolver().resolve(&tunnel.host).await?;
        let judged = allowed
            .into_iter()
            .map(|scheme| judge::resolved(&policy, &tunnel.request(scheme), &resolved));
        // The first refusal says most: it is for the scheme that the port stands for.
        let mut refusals = Vec::new();
        for judged in judged {
            match judged {
                Ok(()) => return Ok(()),
                Err(refusal) => refusals.push(refusal),
            }
        }
        match refusals.into_iter().next() {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    /// Whether the host is allowed and its requests can be inspected where the rules require that.
    fn possible(&self, policy: &Policy, request: &HostRequest) -> Result<(), Refusal> {
        judge::host(policy, request)?;
        let blind = request.scheme == Scheme::Https && self.looks_inside(policy, request) && self.authority().is_none();
        if blind {
            let message = format!(
                "requests to `{}` must be seen, and its TLS cannot be ended here",
                request.host
            );
            return Err(Refusal::new("net.tls", message)
                .by("builtin.tls")
                .hint("ask the operator for a rule without methods and paths"));
        }
        Ok(())
    }

    /// Whether the requests in this host's TLS must be inspected.
    fn looks_inside(&self, policy: &Policy, request: &HostRequest) -> bool {
        policy.ends_tls(request) || self.attachments().look_inside()
    }

    async fn tls<S: Stream + 'static>(self: &Arc<Self>, stream: Rewind<S>, tunnel: &Tunnel, hello: Hello) {
        let request = tunnel.request(Scheme::Https);
        if let Err(refusal) = named(tunnel, hello.name.as_deref()) {
            return self.alert(stream, tunnel, refusal).await;
        }
        let resolved = match self.resolver().resolve(&tunnel.host).await {
            Ok(resolved) => resolved,
            Err(refusal) => return self.alert(stream, tunnel, refusal).await,
        };
        // The policy may have changed since the tunnel was granted, and may change until the flow has its slot.
        let (rule, ended, place) = loop {
            let moment = self.rules().now();
            let ended = self.looks_inside(&moment.policy, &request);
            let judged = self.possible(&moment.policy, &request).and_then(|()| {
                judge::resolved(&moment.policy, &request, &resolved)?;
                // Where the proxy terminates TLS nothing stays hidden, so the extension has no effect.
                if hello.hides && !ended {
                    return Err(refuse::hidden(&tunnel.host.to_string()));
                }
                judge::host(&moment.policy, &request)
            });
            let rule = match judged {
                Ok(rule) => rule,
                Err(refusal) => return self.alert(stream, tunnel, refusal).await,
            };
            let crossing = Crossing {
                request: request.clone(),
                addresses: resolved.addresses.clone(),
                unseen: !ended,
                line: None,
            };
            if let Some(place) = self.rules().enter(&moment, crossing) {
                break (rule, ended, place);
            }
        };
        if ended {
            tokio::select! {
                () = self.end_tls(stream, tunnel) => {}
                () = place.closed() => {}
            }
            return;
        }
        let Ok(number) = self.start(&tunnel.target(Scheme::Https), &resolved, &rule).await else {
            return;
        };
        let passage = Arc::new(self.passage(number, place));
        let host = tunnel.host.to_string();
        let dialled = tokio::select! {
            biased;
            () = passage.closed() => return passage.fault("net.denied"),
            dialled = dial(&host, &resolved.addresses, tunnel.port) => dialled,
        };
        match dialled {
            Ok((far, _)) => relay(stream, far, &passage).await,
            Err(refusal) => {
                passage.fault(refusal.code);
                part(stream, &sniff::alert(refusal.code)).await;
            }
        }
    }

    /// Terminates TLS as the host and inspects the requests inside.
    async fn end_tls<S: Stream + 'static>(self: &Arc<Self>, stream: Rewind<S>, tunnel: &Tunnel) {
        let Some(Ok(config)) = self.authority().map(|authority| authority.server(&tunnel.host)) else {
            let refusal = Refusal::new("net.tls", "no certificate could be made for the host").by("builtin.tls");
            self.refused(&tunnel.target(Scheme::Https), &refusal.into()).await;
            return;
        };
        let shaken = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await;
        // A program that does not trust the proxy, or speaks an unknown TLS, has sent nothing.
        let Ok(Ok(stream)) = shaken else {
            return tracing::debug!(host = %tunnel.host, "a program did not shake hands");
        };
        let origin = Origin::of(&tunnel.request(Scheme::Https));
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => serve::two(self, stream, origin).await,
            _ => serve::one(self, stream, Some(origin)).await,
        }
    }

    /// Serves plain requests in a tunnel: each is checked when it arrives.
    async fn http<S: Stream + 'static>(self: &Arc<Self>, stream: Rewind<S>, tunnel: &Tunnel) {
        let request = tunnel.request(Scheme::Http);
        if let Err(refusal) = judge::host(&self.rules().now().policy, &request) {
            let denial = Denial::from(refusal);
            self.refused(&tunnel.target(Scheme::Http), &denial).await;
            part(stream, &denial.bytes()).await;
            return;
        }
        serve::one(self, stream, Some(Origin::of(&request))).await;
    }

    async fn start(&self, to: &Target, resolved: &Resolved, rule: &str) -> Result<u64, ()> {
        let addresses: Vec<String> = resolved.addresses.iter().map(ToString::to_string).collect();
        let started = self.ledger().started(to, &addresses.join(", "), rule).await;
        started.map_err(drop)
    }

    /// Refuses a tunnel before it is granted.
    async fn refuse_tunnel<S: Stream>(&self, stream: Rewind<S>, tunnel: &Tunnel, denial: Denial) {
        if self.refused(&tunnel.target(tunnel.usual()), &denial).await {
            part(stream, &tunnel.front.refused(&denial)).await;
        }
    }

    /// Refuses inside the tunnel with a TLS alert.
    async fn alert<S: Stream>(&self, stream: Rewind<S>, tunnel: &Tunnel, refusal: Refusal) {
        let alert = sniff::alert(refusal.code);
        if self.refused(&tunnel.target(Scheme::Https), &refusal.into()).await {
            part(stream, &alert).await;
        }
    }
}

/// Checks that the name in TLS is the tunnel's host; a host that is an address has no name.
fn named(tunnel: &Tunnel, name: Option<&str>) -> Result<(), Refusal> {
    match (&tunnel.host, name) {
        (Host::Ip(_), None) => Ok(()),
        (_, Some(name)) => {
            let host: Host = name.parse().map_err(|error| refuse::host(&error))?;
            if host == tunnel.host {
                return Ok(());
            }
            let message = format!("the tunnel is for `{}`, and TLS in it names `{host}`", tunnel.host);
            Err(refuse::sni(message))
        }
        (Host::Name(host), None) => {
            let message = format!("the tunnel is for `{}`, and TLS in it names no host", host.as_str());
            Err(refuse::sni(message))
        }
    }
}

/// Writes the last bytes, closes the write side, and drains what the program still sends; otherwise the program would
/// see a reset instead of the answer.
pub(super) async fn part(mut stream: impl Stream, bytes: &[u8]) {
    let last = async {
        if say(&mut stream, bytes).await && stream.shutdown().await.is_ok() {
            let mut ignored = [0; 4096];
            while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
        }
    };
    // A program that keeps sending is cut off.
    let _ = timeout(PARTING, last).await;
}

/// Writes all bytes. Returns whether that succeeded.
async fn say(stream: &mut (impl Stream + ?Sized), bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok() && stream.flush().await.is_ok()
}
