//! Servers on every address: HTTP/1.1 and HTTP/2, plain and with TLS. An address that is not open serves its secret.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::authority::ProbeAuthorities;
use super::lax_server;
use super::pages;
use super::site::{SiteAnswer, SiteRequest};
use super::traffic_log::TrafficLog;
use super::websocket;
use super::world::{FakeWorld, LOOSE};

/// The ports that servers listen on.
pub(super) const LISTEN_PORTS: [u16; 7] = [80, 443, 8080, 8443, 22, 25, 6379];
/// Ports where the server sends first.
const GREETING_PORTS: [u16; 2] = [22, 25];
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
const MAX_BODY_BYTES: u64 = 256 << 20;

pub(super) type WebBody = UnsyncBoxBody<Bytes, io::Error>;

/// The state that all servers share.
#[derive(Debug)]
pub(super) struct WebServer {
    pub(super) world: Arc<FakeWorld>,
    pub(super) ledger: Arc<TrafficLog>,
    pub(super) authority: Arc<ProbeAuthorities>,
}

pub(super) fn listen_on(web: &Arc<WebServer>, port: u16) -> io::Result<()> {
    let both = std::net::TcpListener::bind(("::", port));
    let listener = both.or_else(|_| std::net::TcpListener::bind(("0.0.0.0", port)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let web = Arc::clone(web);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(to) = stream.local_addr() else { continue };
            let to = SocketAddr::new(to.ip().to_canonical(), to.port());
            web.ledger.add_arrival(to);
            tokio::spawn(Arc::clone(&web).accept_connection(stream, to));
        }
    });
    Ok(())
}

impl WebServer {
    /// Serves one connection and ignores its errors.
    async fn accept_connection(self: Arc<Self>, mut stream: TcpStream, to: SocketAddr) {
        // Answers are small, and a client waits for each.
        let _ = stream.set_nodelay(true);
        if GREETING_PORTS.contains(&to.port()) {
            let greeting = format!("220 {}\r\n", self.world.secret());
            let _ = stream.write_all(greeting.as_bytes()).await;
            return;
        }
        let mut first = [0];
        if !matches!(stream.peek(&mut first).await, Ok(1)) {
            return;
        }
        if first[0] != TLS_HANDSHAKE && to.ip() == LOOSE {
            let _ = lax_server::serve_connection(&self, stream, to).await;
            return;
        }
        if first[0] != TLS_HANDSHAKE {
            return self.serve_http(stream, to, "http").await;
        }
        if let Ok(config) = self.authority.tls_config(to.ip())
            && let Ok(stream) = TlsAcceptor::from(config).accept(stream).await
        {
            self.serve_http(stream, to, "https").await;
        }
    }

    async fn serve_http<S>(self: Arc<Self>, stream: S, to: SocketAddr, scheme: &'static str)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let web = &self;
        let service = service_fn(|request| {
            let web = Arc::clone(web);
            async move { Ok::<_, io::Error>(web.respond(request, to, scheme).await) }
        });
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().preserve_header_case(true);
        let talk = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
        // A client that disconnects is as good as one that ends.
        let _ = talk.await;
    }

    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        to: SocketAddr,
        scheme: &'static str,
    ) -> Response<WebBody> {
        if !self.world.is_open(to.ip()) {
            let asked = read_request(request, to, scheme).await;
            self.ledger.add_request(asked);
            return pages::to_response(SiteAnswer::ok("text/plain", format!("{}\n", self.world.secret())));
        }
        if websocket::is_upgrade(&request) {
            let (asked, request) = split_request(request, to, scheme);
            self.ledger.add_request(asked);
            return websocket::accept_upgrade(request);
        }
        let asked = read_request(request, to, scheme).await;
        self.ledger.add_request(asked.clone());
        let web = Arc::clone(&self);
        let own = tokio::task::spawn_blocking(move || {
            let answer = web.world.site_handler().and_then(|site| site(&asked));
            (answer, asked)
        });
        match own.await {
            Ok((Some(answer), _)) => pages::to_response(answer),
            Ok((None, asked)) => pages::build_page(&asked).await,
            Err(_) => pages::to_response(pages::status_answer(500)),
        }
    }
}

/// The request without its body.
fn split_request<B>(request: Request<B>, to: SocketAddr, scheme: &'static str) -> (SiteRequest, Request<B>) {
    let uri = request.uri();
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let host = uri.authority().map(ToString::to_string);
    let host = host
        .or_else(|| request.headers().get("host").map(text))
        .unwrap_or_default();
    let asked = SiteRequest {
        to,
        scheme,
        host,
        method: request.method().to_string(),
        path: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        version: format!("{:?}", request.version()),
        headers: request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), text(value)))
            .collect(),
        body: Vec::new(),
    };
    (asked, request)
}

/// Reads the whole request, as far as it arrived.
async fn read_request(request: Request<Incoming>, to: SocketAddr, scheme: &'static str) -> SiteRequest {
    let (mut asked, request) = split_request(request, to, scheme);
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        if let Some(data) = frame.data_ref() {
            asked.body.extend_from_slice(data);
        }
        if asked.body.len() as u64 > MAX_BODY_BYTES {
            break;
        }
    }
    asked
}
