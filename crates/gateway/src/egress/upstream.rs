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

use super::body::Body;
use super::dial::dial;
use super::refuse;
use super::rewind::Stream;
use super::serve;
use super::tls::{Inside, Roots};
use crate::refusal::Refusal;

/// How long a pooled connection may take to become ready.
const READY: Duration = Duration::from_millis(100);
/// Most idle connections in a pool.
const KEPT: usize = 16;

/// Scheme, host and port of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) scheme: Scheme,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of(request: &HostRequest) -> Origin {
        Origin {
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
pub(super) struct Link {
    pub(super) origin: Origin,
    pub(super) address: IpAddr,
    pub(super) sender: Sender,
}

#[derive(Debug)]
pub(super) enum Sender {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

/// Why a request got no response, with the request itself if nothing of it was sent.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) error: hyper::Error,
    pub(super) request: Option<Request<Body>>,
}

impl Link {
    pub(super) fn is_two(&self) -> bool {
        matches!(self.sender, Sender::Two(_))
    }

    async fn is_ready(&mut self) -> bool {
        let ready = async {
            match &mut self.sender {
                Sender::One(sender) => sender.ready().await.is_ok(),
                Sender::Two(sender) => sender.ready().await.is_ok(),
            }
        };
        tokio::time::timeout(READY, ready).await.unwrap_or(false)
    }

    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unsent> {
        let sent = match &mut self.sender {
            Sender::One(sender) => sender.try_send_request(request).await,
            Sender::Two(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut failed| Unsent {
            request: failed.take_message(),
            error: failed.into_error(),
        })
    }
}

/// Idle connections that can be reused.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Link>>>);

impl Pool {
    /// Takes a usable connection to this origin; `allowed` checks its address.
    pub(super) async fn take(&self, origin: &Origin, allowed: impl Fn(IpAddr) -> bool) -> Option<Link> {
        loop {
            let mut link = self.pick(origin)?;
            if allowed(link.address) && link.is_ready().await {
                return Some(link);
            }
        }
    }

    fn pick(&self, origin: &Origin) -> Option<Link> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = links.iter().position(|link| link.origin == *origin)?;
        if let Sender::Two(sender) = &links[index].sender
            && !sender.is_closed()
        {
            // Shared: many requests use it at once.
            return Some(Link {
                origin: origin.clone(),
                address: links[index].address,
                sender: Sender::Two(sender.clone()),
            });
        }
        Some(links.swap_remove(index))
    }

    fn put(&self, link: Link) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() >= KEPT {
            links.remove(0);
        }
        links.push(link);
    }

    /// Leases a connection to the response that arrives on it.
    pub(super) fn lend(&self, link: Link) -> Option<Loan> {
        match link.sender {
            Sender::One(_) => Some(Loan {
                pool: self.clone(),
                link,
            }),
            // The pool already has it.
            Sender::Two(_) => None,
        }
    }

    /// Adds a new connection that many requests can share.
    pub(super) fn share(&self, link: &Link) {
        if let Sender::Two(sender) = &link.sender {
            self.put(Link {
                origin: link.origin.clone(),
                address: link.address,
                sender: Sender::Two(sender.clone()),
            });
        }
    }
}

/// A connection that is in use until its response is read.
#[derive(Debug)]
pub(super) struct Loan {
    pool: Pool,
    link: Link,
}

impl Loan {
    pub(super) fn give_back(self) {
        self.pool.put(self.link);
    }
}

/// Dials one of the checked addresses and negotiates the protocol.
pub(super) async fn connect(
    origin: &Origin,
    addresses: &[IpAddr],
    roots: &Roots,
    inside: Inside,
) -> Result<Link, Refusal> {
    let host = origin.host.to_string();
    let (stream, address) = dial(&host, addresses, origin.port).await?;
    let failed = |error: hyper::Error| refuse::unreachable(&host, &error.to_string());
    let sender = match origin.scheme {
        Scheme::Http => one(stream).await.map_err(failed)?,
        Scheme::Https => {
            let stream = roots.connect(&origin.host, inside, stream).await?;
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => two(stream).await.map_err(failed)?,
                _ => one(stream).await.map_err(failed)?,
            }
        }
    };
    Ok(Link {
        origin: origin.clone(),
        address,
        sender,
    })
}

async fn one(stream: impl Stream + 'static) -> hyper::Result<Sender> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a host broke off");
        }
    });
    Ok(Sender::One(sender))
}

async fn two(stream: impl Stream + 'static) -> hyper::Result<Sender> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(serve::WINDOW)
        .initial_connection_window_size(serve::WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a host broke off");
        }
    });
    Ok(Sender::Two(sender))
}
