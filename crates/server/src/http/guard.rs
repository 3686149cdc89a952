//! The guard in front of every route. It checks host name, caller, scope, the caller's limits and the body, in this order.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::auth::{Caller, Gate, Need};
use super::cors;
use super::hosts::Hosts;
use super::limits::{Accounts, Limits, Place};
use super::metrics::Metrics;
use super::problem::Problem;

/// The unit in which the bytes of bodies are counted.
const UNIT: usize = 1024;
/// The interval at which the caller of a streamed response is authenticated again.
const AGAIN: Duration = Duration::from_secs(5);

/// The checks that a request passes before its route.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Hosts,
    gate: Arc<Gate>,
    accounts: Arc<Accounts>,
    limits: Limits,
    bodies: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Guard {
    pub(crate) fn new(hosts: Hosts, gate: Arc<Gate>, limits: &Limits, metrics: Arc<Metrics>) -> Guard {
        Guard {
            hosts,
            gate,
            accounts: Arc::new(Accounts::new(limits)),
            bodies: Arc::new(Semaphore::new(limits.bodies.div_ceil(UNIT))),
            limits: limits.clone(),
            metrics,
        }
    }

    async fn answer(&self, request: Request, route: &str, is_listed: bool, next: Next) -> Response {
        if let Err(problem) = self.hosts.check(request.uri(), request.headers()) {
            return problem.into_response();
        }
        let preflight = is_listed.then(|| cors::preflight(request.method(), request.headers()));
        if let Some(answer) = preflight.flatten() {
            return answer;
        }
        match self.admit(request, route).await {
            Ok(Admitted {
                request,
                caller,
                weight,
            }) => {
                let response = next.run(request).await;
                drop(weight);
                hold(response, caller, &self.gate)
            }
            Err(problem) => problem.into_response(),
        }
    }

    /// Admits a request with its whole body, or returns the reason for its refusal.
    async fn admit(&self, request: Request, route: &str) -> Result<Admitted, Problem> {
        let need = Need::of(request.method(), route);
        if need == Need::Nothing {
            return Ok(Admitted {
                request,
                caller: None,
                weight: None,
            });
        }
        let caller = self.gate.caller(request.headers())?;
        self.gate.scope(caller, need, request.headers())?;
        let place = self.accounts.admit(caller.principal, Instant::now())?;
        let (mut parts, body) = request.into_parts();
        let declared = parts.headers.get(CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse().ok());
        let (bytes, weight) = self.receive(body, declared).await?;
        parts.extensions.insert(caller);
        parts.extensions.insert(caller.principal);
        Ok(Admitted {
            request: Request::from_parts(parts, Body::from(bytes)),
            caller: Some((caller, place)),
            weight,
        })
    }

    /// Reads the whole body, within its size limit, its time limit and the limit of all bodies together.
    async fn receive(
        &self,
        body: Body,
        declared: Option<usize>,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
        if declared.is_some_and(|length| length > self.limits.body) {
            return Err(self.too_large());
        }
        let received = tokio::time::timeout(self.limits.receive, self.collect(body)).await;
        received.unwrap_or_else(|_| {
            let message = format!("the body did not come within {} s", self.limits.receive.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "http.slow", message)
                .hint("send it faster")
                .last())
        })
    }

    async fn collect(&self, mut body: Body) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
        let mut bytes = Vec::new();
        let mut weight: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let broken = |_| Problem::new(StatusCode::BAD_REQUEST, "http.body", "the body ended early").last();
            let Ok(data) = frame.map_err(broken)?.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > self.limits.body {
                return Err(self.too_large());
            }
            bytes.extend_from_slice(&data);
            let held = weight.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let units = bytes.len().div_ceil(UNIT).saturating_sub(held);
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            let Ok(more) = Arc::clone(&self.bodies).try_acquire_many_owned(units) else {
                let message = "the server holds as many requests as it can";
                return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.full", message)
                    .hint("try again soon")
                    .retry(Duration::from_secs(1))
                    .last());
            };
            match &mut weight {
                Some(weight) => weight.merge(more),
                None => weight = Some(more),
            }
        }
        Ok((bytes.into(), weight))
    }

    fn too_large(&self) -> Problem {
        let message = format!("the body has more than {} bytes", self.limits.body);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "http.size", message)
            .rule("listen.limits.body")
            .hint("send less: large data belongs into the sandbox by a tool or a mounted folder")
            .last()
    }
}

/// An admitted request, with the permits that its response releases.
struct Admitted {
    request: Request,
    caller: Option<(Caller, Place)>,
    weight: Option<OwnedSemaphorePermit>,
}

/// The middleware that guards every request.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (method, began) = (request.method().clone(), Instant::now());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let page = cors::listed(&guard.hosts, request.headers());
    let mut response = guard.answer(request, &route, page.is_some(), next).await;
    let headers = response.headers_mut();
    if let Some(origin) = page {
        cors::allow(headers, origin);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    guard.metrics.answered(&route, response.status());
    tracing::debug!(%method, route, status = response.status().as_u16(), ms = began.elapsed().as_millis(), "answered");
    response
}

/// Keeps the caller's permit until the response is sent. A streamed response ends when the caller loses access.
fn hold(response: Response, caller: Option<(Caller, Place)>, gate: &Arc<Gate>) -> Response {
    let Some((caller, place)) = caller else {
        return response;
    };
    response.map(|inner| {
        let streams = inner.size_hint().exact().is_none();
        let gate = Arc::clone(gate);
        Body::new(Held {
            inner,
            _place: place,
            end: streams.then(|| Box::pin(refused(gate, caller)) as Pin<Box<dyn Future<Output = ()> + Send>>),
        })
    })
}

/// Waits until the caller loses access.
async fn refused(gate: Arc<Gate>, caller: Caller) {
    loop {
        tokio::time::sleep(AGAIN).await;
        if !gate.still(caller) {
            return;
        }
    }
}

/// The body of a response in progress.
struct Held {
    inner: Body,
    _place: Place,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            self.end = None;
            self.inner = Body::empty();
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
