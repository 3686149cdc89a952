//! The HTTP server: MCP at `/mcp`, the JSON API, health and metrics, behind one guard.
//!
//! Connections, requests and principals each have their limits here. This module does not know what a route does.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use ringfence_engine::Engine;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Endpoint, EndpointOptions, McpService, api};

pub(crate) mod auth;
mod connection;
mod connection_table;
mod cors;
mod guard;
mod hosts;
mod limits;
mod metrics;
pub(crate) mod problem;
mod write_timeout;

pub use auth::ClientAuth;
pub use hosts::{Hosts, HostsError};
pub use limits::HttpLimits;

use auth::{Authenticator, METADATA_PATH};
use connection_table::ConnectionTable;
use guard::RequestGuard;
use metrics::Metrics;
use problem::HttpProblem;

/// How long the server waits before it accepts again after an error such as too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long answers that are ready when the last run ends may take to be sent.
const READY_ANSWERS_TIMEOUT: Duration = Duration::from_millis(200);
/// How long the remaining answers may take to be sent.
const FINAL_ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
/// The response to a client if the connection limit is reached.
const CONNECTION_LIMIT_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
Connection: close\r\nContent-Length: 99\r\n\r\n\
{\"code\":\"http.connections\",\"message\":\"too many connections are open\",\"hint\":\"try again in a moment\"}";

/// The journal cannot be read, so the server does not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the journal to count what happens")]
pub struct ServeHttpError(#[source] ringfence_engine::storage::QueryError);

/// The parts of the HTTP server.
#[derive(Debug)]
pub struct HttpServer {
    /// The engine that all routes use.
    pub engine: Arc<Engine>,
    /// How clients authenticate themselves.
    pub auth: ClientAuth,
    /// The host names that the server answers to.
    pub hosts: Hosts,
    /// The limits of clients and connections.
    pub limits: HttpLimits,
    /// How long an unused MCP session stays open.
    pub idle: Duration,
}

/// What answers at `/mcp`.
#[derive(Debug, Clone)]
pub enum McpRoute {
    /// The MCP service of an engine.
    Service(McpService),
    /// The fixtures of the protocol's conformance suite.
    Conformance,
}

impl McpRoute {
    fn into_router(self, options: EndpointOptions) -> Router {
        match self {
            McpRoute::Service(mcp) => Router::new().route_service("/mcp", Endpoint::new(&mcp, options)),
            McpRoute::Conformance => Router::new().route_service("/mcp", Endpoint::conformance(options)),
        }
    }
}

impl HttpServer {
    /// Serves HTTP until `shutdown`. Then it accepts no more connections, and open requests may finish within `limits.drain`.
    pub fn serve(
        self,
        listener: TcpListener,
        mcp: McpRoute,
        shutdown: BoxFuture<'_, ()>,
    ) -> BoxFuture<'_, Result<(), ServeHttpError>> {
        Box::pin(self.serve_until(listener, mcp, shutdown))
    }

    async fn serve_until(
        self,
        listener: TcpListener,
        mcp: McpRoute,
        mut shutdown: BoxFuture<'_, ()>,
    ) -> Result<(), ServeHttpError> {
        let (close, closing) = watch::channel(false);
        let limits = Arc::new(self.limits.clone());
        let engine = Arc::clone(&self.engine);
        let metrics = Arc::new(Metrics::new(Arc::clone(&self.engine)).await.map_err(ServeHttpError)?);
        let counting = tokio::spawn(metrics::count_periodically(Arc::clone(&metrics)));
        let stop = CancellationToken::new();
        let mcp = mcp.into_router(EndpointOptions {
            hosts: self.hosts.names(),
            origins: self.hosts.origins(),
            max_body_bytes: limits.body,
            idle: self.idle,
            stop: stop.clone(),
        });
        let routes = self.routes(mcp, metrics, closing.clone());
        let table = ConnectionTable::new(limits.connections);
        let mut connections = JoinSet::new();
        loop {
            let stream = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                        continue;
                    }
                },
            };
            let Some(slot) = table.admit() else {
                reject_connection(stream);
                continue;
            };
            // A small answer is sent without waiting for more.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection waits before it sends");
            }
            let (routes, limits, closing) = (routes.clone(), Arc::clone(&limits), closing.clone());
            connections.spawn(async move {
                tokio::select! {
                    biased;
                    () = slot.evicted() => tracing::debug!("a connection without a request made room for another"),
                    () = connection::serve_connection(stream, routes, Arc::clone(&slot), limits, closing) => {}
                }
            });
        }
        drop(listener);
        // There is no receiver if every connection has ended.
        let _ = close.send(true);
        engine.runs().drain(limits.drain).await;
        // Answers to runs are sent first; then streams are closed, which would stay open forever.
        if !join_connections(&mut connections, READY_ANSWERS_TIMEOUT).await {
            stop.cancel();
            if !join_connections(&mut connections, FINAL_ANSWERS_TIMEOUT).await {
                tracing::info!(connections = connections.len(), "connections that stayed open are cut");
            }
        }
        stop.cancel();
        connections.shutdown().await;
        counting.abort();
        Ok(())
    }

    fn routes(self, mcp: Router, metrics: Arc<Metrics>, closing: watch::Receiver<bool>) -> Router {
        let gate = Arc::new(Authenticator::new(self.auth, Arc::clone(&self.engine)));
        let guard = Arc::new(RequestGuard::new(
            self.hosts,
            Arc::clone(&gate),
            &self.limits,
            Arc::clone(&metrics),
        ));
        let metadata = get(metadata_response).with_state(gate);
        Router::new()
            .route("/healthz", get(health_response).with_state(Arc::clone(&self.engine)))
            .route("/metrics", get(metrics::metrics_response).with_state(metrics))
            .route(METADATA_PATH, metadata.clone())
            .route(&format!("{METADATA_PATH}/mcp"), metadata)
            .merge(api::api_routes(self.engine, closing))
            .merge(mcp)
            .fallback(route_not_found)
            .method_not_allowed_fallback(method_not_allowed)
            // The guard has already read the body within `limits.body`; axum's own limit of 2 MiB would be lower.
            .layer(DefaultBodyLimit::disable())
            .layer(middleware::from_fn_with_state(guard, guard::guard_request))
    }
}

/// Whether all connections end by themselves within this time.
async fn join_connections(connections: &mut JoinSet<()>, patience: Duration) -> bool {
    let all = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(patience, all).await.is_ok()
}

/// Sends the refusal without reading the request.
fn reject_connection(mut stream: TcpStream) {
    tokio::spawn(async move {
        // A client that does not read even this gets nothing.
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(CONNECTION_LIMIT_RESPONSE)).await;
    });
}

async fn health_response(State(engine): State<Arc<Engine>>) -> Response {
    if engine.is_closing() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "closing" }))).into_response();
    }
    Json(json!({ "status": "ok" })).into_response()
}

async fn metadata_response(State(gate): State<Arc<Authenticator>>, headers: HeaderMap) -> Json<Value> {
    Json(gate.resource_metadata(&headers))
}

async fn route_not_found() -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "http.path", "there is nothing at this path")
        .with_hint("MCP is at `/mcp`, the API at `/api/v1`; `/api/v1/openapi.json` names every path")
}

async fn method_not_allowed() -> HttpProblem {
    HttpProblem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "http.method",
        "this path does not know this method",
    )
    .with_hint("`/api/v1/openapi.json` names every path and its methods")
}
