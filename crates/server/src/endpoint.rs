//! MCP over streamable HTTP, as a service that an HTTP server mounts. It serves both eras of the protocol at one address.
//!
//! The HTTP server must put the caller into the extensions of each request, as a [`Principal`]. An MCP session of the older era
//! belongs to the principal that opened it; for all others it does not exist.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use ringfence_journal::Principal;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::json_limits::{MAX_JSON_VALUES, has_too_many_values};
use crate::mcp::{McpHandler, McpService};

const SESSION_HEADER: &str = "mcp-session-id";
/// The most MCP sessions of the older era that are open at the same time.
const MAX_SESSIONS: usize = 1024;
/// The most of them for one principal.
const MAX_SESSIONS_PER_PRINCIPAL: usize = 128;

type EndpointResponse = Response<BoxBody<Bytes, Infallible>>;

/// The options of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// The allowed values of `Host`: names, or names with ports.
    pub hosts: Vec<String>,
    /// The allowed values of `Origin`; requests without it are allowed.
    pub origins: Vec<String>,
    /// The most bytes of a request body.
    pub max_body_bytes: usize,
    /// How long an unused MCP session of the older era stays open.
    pub idle: Duration,
    /// Cancelled when the server stops.
    pub stop: CancellationToken,
}

impl Default for EndpointOptions {
    fn default() -> EndpointOptions {
        let hosts = ["localhost", "127.0.0.1", "::1"];
        let origins = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        EndpointOptions {
            hosts: hosts.map(str::to_owned).to_vec(),
            origins: origins.map(str::to_owned).to_vec(),
            max_body_bytes: 4 * 1024 * 1024,
            idle: Duration::from_hours(1),
            stop: CancellationToken::new(),
        }
    }
}

/// The principal that opened an MCP session, and the time of its last use.
#[derive(Debug)]
struct McpSessionOwner {
    principal: Principal,
    last_used: Instant,
}

/// The endpoint; clones share its sessions.
pub struct Endpoint<H = McpHandler> {
    service: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    owners: Arc<Mutex<HashMap<String, McpSessionOwner>>>,
    max_body_bytes: usize,
}

impl<H> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Endpoint {
            service: self.service.clone(),
            sessions: Arc::clone(&self.sessions),
            owners: Arc::clone(&self.owners),
            max_body_bytes: self.max_body_bytes,
        }
    }
}

impl<H> fmt::Debug for Endpoint<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl Endpoint<McpHandler> {
    /// An endpoint for the MCP service of an engine.
    pub fn new(mcp: &McpService, options: EndpointOptions) -> Endpoint<McpHandler> {
        let (mcp, gone) = (mcp.clone(), options.stop.clone());
        Endpoint::with_handler(move || mcp.handler_by_request(gone.clone()), options)
    }
}

impl<H: ServerHandler> Endpoint<H> {
    /// An endpoint for any handler, with the same transport.
    pub(crate) fn with_handler(make: impl Fn() -> H + Send + Sync + 'static, options: EndpointOptions) -> Endpoint<H> {
        let mut session = SessionConfig::default();
        session.keep_alive = Some(options.idle);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = session;
        let sessions = Arc::new(sessions);
        tokio::spawn(close_all_on_stop(Arc::clone(&sessions), options.stop.clone()));
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts)
            .with_allowed_origins(options.origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(options.max_body_bytes)
            .with_json_response(true)
            .with_cancellation_token(options.stop);
        Endpoint {
            service: StreamableHttpService::new(move || Ok(make()), Arc::clone(&sessions), config),
            sessions,
            owners: Arc::default(),
            max_body_bytes: options.max_body_bytes,
        }
    }

    /// Handles one request; its extensions must have a `Principal`.
    pub async fn handle<B>(&self, request: Request<B>) -> EndpointResponse
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let Some(who) = request.extensions().get::<Principal>().copied() else {
            return error_response(StatusCode::UNAUTHORIZED, "the request says nobody who asks");
        };
        match request.headers().get(SESSION_HEADER).map(|id| id.to_str()) {
            None if may_open_session(&request) && !self.make_room(who).await => {
                let message = "too many conversations at once: end one, or wait";
                return error_response(StatusCode::SERVICE_UNAVAILABLE, message);
            }
            None => {}
            Some(Ok(id)) if self.is_owner(who, id) => {}
            Some(_) => return error_response(StatusCode::NOT_FOUND, "there is no such conversation: begin a new one"),
        }
        let request = match self.read_body(request).await {
            Ok(request) => request,
            Err(refused) => return *refused,
        };
        let response = self.service.handle(request).await;
        if let Some(Ok(id)) = response.headers().get(SESSION_HEADER).map(|id| id.to_str()) {
            self.set_owner(who, id).await;
        }
        response
    }

    /// Reads the body, and refuses one with too many bytes or too many JSON values.
    async fn read_body<B>(&self, request: Request<B>) -> Result<Request<Full<Bytes>>, Box<EndpointResponse>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let refuse = |status, message: &str| Box::new(error_response(status, message));
        let (parts, body) = request.into_parts();
        let mut body = pin!(body);
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.as_mut().frame().await {
            let frame =
                frame.map_err(|error| refuse(StatusCode::BAD_REQUEST, &format!("the request broke off: {error}")))?;
            let Ok(piece) = frame.into_data() else { continue };
            if bytes.len() + piece.remaining() > self.max_body_bytes {
                let message = format!("a request of more than {} bytes is not read", self.max_body_bytes);
                return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &message));
            }
            bytes.put(piece);
        }
        if has_too_many_values(&bytes) {
            let message = format!("a message of more than {MAX_JSON_VALUES} values is not read");
            return Err(refuse(StatusCode::BAD_REQUEST, &message));
        }
        Ok(Request::from_parts(parts, Full::new(bytes.freeze())))
    }

    fn is_owner(&self, who: Principal, id: &str) -> bool {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = owners.get_mut(id).filter(|owner| owner.principal == who);
        owner.map(|owner| owner.last_used = Instant::now()).is_some()
    }

    async fn set_owner(&self, who: Principal, id: &str) {
        let used = Instant::now();
        self.open_owners().await.insert(
            id.to_owned(),
            McpSessionOwner {
                principal: who,
                last_used: used,
            },
        );
    }

    /// Makes room for another MCP session, if necessary by closing the principal's least recently used one. Returns whether there
    /// is room.
    async fn make_room(&self, who: Principal) -> bool {
        let oldest = {
            let owners = self.open_owners().await;
            let own = || owners.iter().filter(|(_, owner)| owner.principal == who);
            if owners.len() < MAX_SESSIONS && own().count() < MAX_SESSIONS_PER_PRINCIPAL {
                return true;
            }
            own().min_by_key(|(_, owner)| owner.last_used).map(|(id, _)| id.clone())
        };
        let Some(oldest) = oldest else { return false };
        if let Err(error) = self.sessions.close_session(&oldest.into()).await {
            tracing::debug!(%error, "a conversation ended by itself");
        }
        true
    }

    /// The owners of open MCP sessions; owners of closed ones are removed.
    async fn open_owners(&self) -> MutexGuard<'_, HashMap<String, McpSessionOwner>> {
        let open = self.sessions.sessions.read().await;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|id, _| open.contains_key(id.as_str()));
        owners
    }
}

/// Whether a request may open an MCP session: the newer era has none.
fn may_open_session<B>(request: &Request<B>) -> bool {
    let version = request.headers().get("mcp-protocol-version");
    let is_newer = version.is_some_and(|version| version.as_bytes() >= b"2026-07-28".as_slice());
    request.method() == http::Method::POST && !is_newer
}

impl<H, B> tower_service::Service<Request<B>> for Endpoint<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = EndpointResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}

/// Closes every MCP session of the older era when the server stops, because each keeps its handler alive.
async fn close_all_on_stop(sessions: Arc<LocalSessionManager>, stop: CancellationToken) {
    stop.cancelled().await;
    let open: Vec<_> = sessions.sessions.read().await.keys().cloned().collect();
    for id in open {
        if let Err(error) = sessions.close_session(&id).await {
            tracing::debug!(%error, "a conversation ended by itself");
        }
    }
}

fn error_response(status: StatusCode, message: &str) -> EndpointResponse {
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": message } });
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
