//! Tunnels: CONNECT and SOCKS5. The host is checked before the tunnel is granted, and the traffic must match the
//! grant: TLS for exactly that name, or requests that are checked one by one.

use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::EgressTarget;
use ringfence_policy::{Host, HostRequest, Policy, Scheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Egress;
use super::connection_pool::RequestOrigin;
use super::dial::dial;
use super::generation::ActiveFlow;
use super::policy_check;
use super::refuse::{self, Denial};
use super::relay::relay;
use super::resolve::ResolvedHost;
use super::rewind::{ProxyStream, RewindStream};
use super::serve;
use super::sniff::{self, SniffedProtocol, TlsHello, sniff};
use super::socks;
use super::target;
use super::tls::HANDSHAKE_TIMEOUT;
use crate::refusal::RequestRefusal;

/// How long a program may take to send its first bytes in a tunnel.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the proxy lingers for the program to read the last bytes.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The protocol that a tunnel was requested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TunnelProtocol {
    Connect,
    Socks,
}

impl TunnelProtocol {
    fn granted_reply(self) -> Vec<u8> {
        match self {
            TunnelProtocol::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
            TunnelProtocol::Socks => socks::encode_reply(socks::SocksReply::Granted),
        }
    }

    pub(super) fn refusal_reply(self, denial: &Denial) -> Vec<u8> {
        match self {
            TunnelProtocol::Connect => denial.http1_bytes(),
            TunnelProtocol::Socks => socks::encode_refusal(denial),
        }
    }
}

/// A request for a tunnel.
#[derive(Debug)]
pub(super) struct TunnelRequest {
    pub(super) front: TunnelProtocol,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl TunnelRequest {
    fn host_request(&self, scheme: Scheme) -> HostRequest {
        HostRequest {
            host: self.host.clone(),
            scheme,
            port: self.port,
            method: None,
            path: None,
        }
    }

    fn flow_target(&self, scheme: Scheme) -> EgressTarget {
        target::flow_target(scheme, &self.host.to_string(), self.port)
    }

    /// Returns the scheme that the port stands for, where only the port is known.
    fn default_scheme(&self) -> Scheme {
        if self.port == Scheme::Http.port() {
            Scheme::Http
        } else {
            Scheme::Https
        }
    }
}

impl Egress {
    /// Checks a tunnel, grants it, and serves its traffic.
    pub(super) async fn serve_tunnel<S: ProxyStream + 'static>(
        self: &Arc<Self>,
        mut stream: RewindStream<S>,
        tunnel: TunnelRequest,
    ) {
        if let Err(denial) = self.grant_tunnel(&tunnel).await {
            return self.refuse_tunnel(stream, &tunnel, denial).await;
        }
        if !write_bytes(&mut stream, &tunnel.front.granted_reply()).await {
            return;
        }
        let Ok(Ok(spoken)) = timeout(FIRST_BYTES_TIMEOUT, sniff(&mut stream)).await else {
            return;
        };
        match spoken {
            SniffedProtocol::Silence => {}
            SniffedProtocol::Tls(hello) => self.serve_tls(stream, &tunnel, hello).await,
            SniffedProtocol::Http => self.serve_plain_http(stream, &tunnel).await,
            SniffedProtocol::Unknown => {
                let refusal = refuse::protocol("only TLS and HTTP/1 go through a tunnel");
                self.record_refusal(&tunnel.flow_target(tunnel.default_scheme()), &refusal.into())
                    .await;
            }
        }
    }

    /// Whether the tunnel is allowed, for TLS or for plain HTTP, by name and by every address.
    async fn grant_tunnel(&self, tunnel: &TunnelRequest) -> Result<(), Denial> {
        let policy = self.policy().snapshot().policy;
        let (usual, other) = match tunnel.default_scheme() {
            Scheme::Https => (Scheme::Https, Scheme::Http),
            Scheme::Http => (Scheme::Http, Scheme::Https),
        };
        let host = |scheme| self.check_inspectable(&policy, &tunnel.host_request(scheme));
        let allowed = match (host(usual), host(other)) {
            (Ok(()), Ok(())) => vec![usual, other],
            (Ok(()), Err(_)) => vec![usual],
            (Err(_), Ok(())) => vec![other],
            (Err(refusal), Err(_)) => return Err(refusal.into()),
        };
        let resolved = self.resolver().resolve(&tunnel.host).await?;
        let judged = allowed
            .into_iter()
            .map(|scheme| policy_check::check_resolved(&policy, &tunnel.host_request(scheme), &resolved));
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
    fn check_inspectable(&self, policy: &Policy, request: &HostRequest) -> Result<(), RequestRefusal> {
        policy_check::check_host(policy, request)?;
        let blind =
            request.scheme == Scheme::Https && self.needs_inspection(policy, request) && self.authority().is_none();
        if blind {
            let message = format!(
                "requests to `{}` must be seen, and its TLS cannot be ended here",
                request.host
            );
            return Err(RequestRefusal::new("net.tls", message)
                .by_rule("builtin.tls")
                .with_hint("ask the operator for a rule without methods and paths"));
        }
        Ok(())
    }

    /// Whether the requests in this host's TLS must be inspected.
    fn needs_inspection(&self, policy: &Policy, request: &HostRequest) -> bool {
        policy.terminates_tls(request) || self.attachments().needs_inspection()
    }

    async fn serve_tls<S: ProxyStream + 'static>(
        self: &Arc<Self>,
        stream: RewindStream<S>,
        tunnel: &TunnelRequest,
        hello: TlsHello,
    ) {
        let request = tunnel.host_request(Scheme::Https);
        if let Err(refusal) = check_server_name(tunnel, hello.name.as_deref()) {
            return self.refuse_with_alert(stream, tunnel, refusal).await;
        }
        let resolved = match self.resolver().resolve(&tunnel.host).await {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse_with_alert(stream, tunnel, refusal).await,
        };
        // The policy may have changed since the tunnel was granted, and may change until the flow has its slot.
        let (rule, ended, place) = loop {
            let moment = self.policy().snapshot();
            let ended = self.needs_inspection(&moment.policy, &request);
            let judged = self.check_inspectable(&moment.policy, &request).and_then(|()| {
                policy_check::check_resolved(&moment.policy, &request, &resolved)?;
                // Where the proxy terminates TLS nothing stays hidden, so the extension has no effect.
                if hello.has_encrypted_hello && !ended {
                    return Err(refuse::hidden(&tunnel.host.to_string()));
                }
                policy_check::check_host(&moment.policy, &request)
            });
            let rule = match judged {
                Ok(rule) => rule,
                Err(refusal) => return self.refuse_with_alert(stream, tunnel, refusal).await,
            };
            let crossing = ActiveFlow {
                request: request.clone(),
                addresses: resolved.addresses.clone(),
                is_opaque: !ended,
                hang_up: None,
            };
            if let Some(place) = self.policy().admit(&moment, crossing) {
                break (rule, ended, place);
            }
        };
        if ended {
            tokio::select! {
                () = self.terminate_tls(stream, tunnel) => {}
                () = place.wait_until_closed() => {}
            }
            return;
        }
        let Ok(number) = self
            .record_start(&tunnel.flow_target(Scheme::Https), &resolved, &rule)
            .await
        else {
            return;
        };
        let passage = Arc::new(self.new_flow(number, place));
        let host = tunnel.host.to_string();
        let dialled = tokio::select! {
            biased;
            () = passage.wait_until_closed() => return passage.set_fault("net.denied"),
            dialled = dial(&host, &resolved.addresses, tunnel.port) => dialled,
        };
        match dialled {
            Ok((far, _)) => relay(stream, far, &passage).await,
            Err(refusal) => {
                passage.set_fault(refusal.code);
                finish_and_drain(stream, &sniff::fatal_alert(refusal.code)).await;
            }
        }
    }

    /// Terminates TLS as the host and inspects the requests inside.
    async fn terminate_tls<S: ProxyStream + 'static>(
        self: &Arc<Self>,
        stream: RewindStream<S>,
        tunnel: &TunnelRequest,
    ) {
        let Some(Ok(config)) = self.authority().map(|authority| authority.server_config(&tunnel.host)) else {
            let refusal =
                RequestRefusal::new("net.tls", "no certificate could be made for the host").by_rule("builtin.tls");
            self.record_refusal(&tunnel.flow_target(Scheme::Https), &refusal.into())
                .await;
            return;
        };
        let shaken = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await;
        // A program that does not trust the proxy, or speaks an unknown TLS, has sent nothing.
        let Ok(Ok(stream)) = shaken else {
            return tracing::debug!(host = %tunnel.host, "a program did not shake hands");
        };
        let origin = RequestOrigin::from_request(&tunnel.host_request(Scheme::Https));
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => serve::serve_http2(self, stream, origin).await,
            _ => serve::serve_http1(self, stream, Some(origin)).await,
        }
    }

    /// Serves plain requests in a tunnel: each is checked when it arrives.
    async fn serve_plain_http<S: ProxyStream + 'static>(
        self: &Arc<Self>,
        stream: RewindStream<S>,
        tunnel: &TunnelRequest,
    ) {
        let request = tunnel.host_request(Scheme::Http);
        if let Err(refusal) = policy_check::check_host(&self.policy().snapshot().policy, &request) {
            let denial = Denial::from(refusal);
            self.record_refusal(&tunnel.flow_target(Scheme::Http), &denial).await;
            finish_and_drain(stream, &denial.http1_bytes()).await;
            return;
        }
        serve::serve_http1(self, stream, Some(RequestOrigin::from_request(&request))).await;
    }

    async fn record_start(&self, to: &EgressTarget, resolved: &ResolvedHost, rule: &str) -> Result<u64, ()> {
        let addresses: Vec<String> = resolved.addresses.iter().map(ToString::to_string).collect();
        let started = self.recorder().record_start(to, &addresses.join(", "), rule).await;
        started.map_err(drop)
    }

    /// Refuses a tunnel before it is granted.
    async fn refuse_tunnel<S: ProxyStream>(&self, stream: RewindStream<S>, tunnel: &TunnelRequest, denial: Denial) {
        if self
            .record_refusal(&tunnel.flow_target(tunnel.default_scheme()), &denial)
            .await
        {
            finish_and_drain(stream, &tunnel.front.refusal_reply(&denial)).await;
        }
    }

    /// Refuses inside the tunnel with a TLS alert.
    async fn refuse_with_alert<S: ProxyStream>(
        &self,
        stream: RewindStream<S>,
        tunnel: &TunnelRequest,
        refusal: RequestRefusal,
    ) {
        let alert = sniff::fatal_alert(refusal.code);
        if self
            .record_refusal(&tunnel.flow_target(Scheme::Https), &refusal.into())
            .await
        {
            finish_and_drain(stream, &alert).await;
        }
    }
}

/// Checks that the name in TLS is the tunnel's host; a host that is an address has no name.
fn check_server_name(tunnel: &TunnelRequest, name: Option<&str>) -> Result<(), RequestRefusal> {
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
pub(super) async fn finish_and_drain(mut stream: impl ProxyStream, bytes: &[u8]) {
    let last = async {
        if write_bytes(&mut stream, bytes).await && stream.shutdown().await.is_ok() {
            let mut ignored = [0; 4096];
            while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
        }
    };
    // A program that keeps sending is cut off.
    let _ = timeout(LINGER_TIMEOUT, last).await;
}

/// Writes all bytes. Returns whether that succeeded.
async fn write_bytes(stream: &mut (impl ProxyStream + ?Sized), bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok() && stream.flush().await.is_ok()
}
