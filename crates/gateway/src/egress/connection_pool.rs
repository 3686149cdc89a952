//! Connections to hosts on behalf of one connection of a program: dialled when a request needs one, and reused by the
//! same program only.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ringfence_policy::{Host, HostRequest, Scheme};

use super::body::ProxyBody;
use super::dial::dial;
use super::refuse;
use super::rewind::ProxyStream;
use super::serve;
use super::tls::{AlpnChoice, TrustRoots};
use crate::refusal::RequestRefusal;

/// How long a pooled connection may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_millis(100);
/// Most idle connections in a pool.
const MAX_IDLE_CONNECTIONS: usize = 16;

/// Scheme, host and port of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestOrigin {
    pub(super) scheme: Scheme,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl RequestOrigin {
    pub(super) fn from_request(request: &HostRequest) -> RequestOrigin {
        RequestOrigin {
            scheme: request.scheme,
            host: request.host.clone(),
            port: request.port,
        }
    }

    /// Returns a request to this origin without method and path.
    pub(super) fn request(&self) -> HostRequest {
        HostRequest {
            host: self.host.clone(),
            scheme: self.scheme,
            port: self.port,
            method: None,
            path: None,
        }
    }

    /// Returns the authority as `Host` and `:authority` write it.
    pub(super) fn authority(&self) -> String {
        let host = match self.host {
            Host::Ip(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Ip(IpAddr::V4(_)) | Host::Name(_) => self.host.to_string(),
        };
        if self.port == self.scheme.port() {
            return host;
        }
        format!("{host}:{}", self.port)
    }
}

/// An open connection to one address of a host.
#[derive(Debug)]
pub(super) struct HostConnection {
    pub(super) origin: RequestOrigin,
    pub(super) address: IpAddr,
    pub(super) sender: HttpSender,
}

#[derive(Debug)]
pub(super) enum HttpSender {
    Http1(http1::SendRequest<ProxyBody>),
    Http2(http2::SendRequest<ProxyBody>),
}

/// Why a request got no response, with the request itself if nothing of it was sent.
#[derive(Debug)]
pub(super) struct UnansweredRequest {
    pub(super) error: hyper::Error,
    pub(super) request: Option<Request<ProxyBody>>,
}

impl HostConnection {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, HttpSender::Http2(_))
    }

    async fn is_ready(&mut self) -> bool {
        let ready = async {
            match &mut self.sender {
                HttpSender::Http1(sender) => sender.ready().await.is_ok(),
                HttpSender::Http2(sender) => sender.ready().await.is_ok(),
            }
        };
        tokio::time::timeout(READY_TIMEOUT, ready).await.unwrap_or(false)
    }

    pub(super) async fn send(&mut self, request: Request<ProxyBody>) -> Result<Response<Incoming>, UnansweredRequest> {
        let sent = match &mut self.sender {
            HttpSender::Http1(sender) => sender.try_send_request(request).await,
            HttpSender::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut failed| UnansweredRequest {
            request: failed.take_message(),
            error: failed.into_error(),
        })
    }
}

/// Idle connections that can be reused.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionPool(Arc<Mutex<Vec<HostConnection>>>);

impl ConnectionPool {
    /// Takes a usable connection to this origin; `allowed` checks its address.
    pub(super) async fn checkout(
        &self,
        origin: &RequestOrigin,
        allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<HostConnection> {
        loop {
            let mut link = self.remove_idle(origin)?;
            if allowed(link.address) && link.is_ready().await {
                return Some(link);
            }
        }
    }

    fn remove_idle(&self, origin: &RequestOrigin) -> Option<HostConnection> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = links.iter().position(|link| link.origin == *origin)?;
        if let HttpSender::Http2(sender) = &links[index].sender
            && !sender.is_closed()
        {
            // Shared: many requests use it at once.
            return Some(HostConnection {
                origin: origin.clone(),
                address: links[index].address,
                sender: HttpSender::Http2(sender.clone()),
            });
        }
        Some(links.swap_remove(index))
    }

    fn add_idle(&self, link: HostConnection) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() >= MAX_IDLE_CONNECTIONS {
            links.remove(0);
        }
        links.push(link);
    }

    /// Leases a connection to the response that arrives on it.
    pub(super) fn lease(&self, link: HostConnection) -> Option<ConnectionLease> {
        match link.sender {
            HttpSender::Http1(_) => Some(ConnectionLease {
                pool: self.clone(),
                connection: link,
            }),
            // The pool already has it.
            HttpSender::Http2(_) => None,
        }
    }

    /// Adds a new connection that many requests can share.
    pub(super) fn share(&self, link: &HostConnection) {
        if let HttpSender::Http2(sender) = &link.sender {
            self.add_idle(HostConnection {
                origin: link.origin.clone(),
                address: link.address,
                sender: HttpSender::Http2(sender.clone()),
            });
        }
    }
}

/// A connection that is in use until its response is read.
#[derive(Debug)]
pub(super) struct ConnectionLease {
    pool: ConnectionPool,
    connection: HostConnection,
}

impl ConnectionLease {
    pub(super) fn release(self) {
        self.pool.add_idle(self.connection);
    }
}

/// Dials one of the checked addresses and negotiates the protocol.
pub(super) async fn connect(
    origin: &RequestOrigin,
    addresses: &[IpAddr],
    roots: &TrustRoots,
    inside: AlpnChoice,
) -> Result<HostConnection, RequestRefusal> {
    let host = origin.host.to_string();
    let (stream, address) = dial(&host, addresses, origin.port).await?;
    let failed = |error: hyper::Error| refuse::unreachable(&host, &error.to_string());
    let sender = match origin.scheme {
        Scheme::Http => handshake_http1(stream).await.map_err(failed)?,
        Scheme::Https => {
            let stream = roots.connect(&origin.host, inside, stream).await?;
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => handshake_http2(stream).await.map_err(failed)?,
                _ => handshake_http1(stream).await.map_err(failed)?,
            }
        }
    };
    Ok(HostConnection {
        origin: origin.clone(),
        address,
        sender,
    })
}

async fn handshake_http1(stream: impl ProxyStream + 'static) -> hyper::Result<HttpSender> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a host broke off");
        }
    });
    Ok(HttpSender::Http1(sender))
}

async fn handshake_http2(stream: impl ProxyStream + 'static) -> hyper::Result<HttpSender> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(serve::FLOW_CONTROL_WINDOW)
        .initial_connection_window_size(serve::FLOW_CONTROL_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a host broke off");
        }
    });
    Ok(HttpSender::Http2(sender))
}
