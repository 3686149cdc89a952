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

use super::auth::{Authenticator, Caller, RequiredAccess};
use super::cors;
use super::hosts::Hosts;
use super::limits::{HttpLimits, PrincipalAccounts, RequestPermit};
use super::metrics::Metrics;
use super::problem::HttpProblem;

/// The unit in which the bytes of bodies are counted.
const WEIGHT_UNIT_BYTES: usize = 1024;
/// The interval at which the caller of a streamed response is authenticated again.
const REAUTH_INTERVAL: Duration = Duration::from_secs(5);

/// The checks that a request passes before its route.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    hosts: Hosts,
    gate: Arc<Authenticator>,
    accounts: Arc<PrincipalAccounts>,
    limits: HttpLimits,
    bodies: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl RequestGuard {
    pub(crate) fn new(
        hosts: Hosts,
        gate: Arc<Authenticator>,
        limits: &HttpLimits,
        metrics: Arc<Metrics>,
    ) -> RequestGuard {
        RequestGuard {
            hosts,
            gate,
            accounts: Arc::new(PrincipalAccounts::new(limits)),
            bodies: Arc::new(Semaphore::new(limits.bodies.div_ceil(WEIGHT_UNIT_BYTES))),
            limits: limits.clone(),
            metrics,
        }
    }

    async fn answer_request(&self, request: Request, route: &str, is_listed: bool, next: Next) -> Response {
        if let Err(problem) = self.hosts.check_request(request.uri(), request.headers()) {
            return problem.into_response();
        }
        let preflight = is_listed.then(|| cors::preflight_response(request.method(), request.headers()));
        if let Some(answer) = preflight.flatten() {
            return answer;
        }
        match self.admit_request(request, route).await {
            Ok(AdmittedRequest {
                request,
                caller,
                weight,
            }) => {
                let response = next.run(request).await;
                drop(weight);
                guard_response(response, caller, &self.gate)
            }
            Err(problem) => problem.into_response(),
        }
    }

    /// Admits a request with its whole body, or returns the reason for its refusal.
    async fn admit_request(&self, request: Request, route: &str) -> Result<AdmittedRequest, HttpProblem> {
        let need = RequiredAccess::for_route(request.method(), route);
        if need == RequiredAccess::Nothing {
            return Ok(AdmittedRequest {
                request,
                caller: None,
                weight: None,
            });
        }
        let caller = self.gate.authenticate(request.headers())?;
        self.gate.require_scope(caller, need, request.headers())?;
        let place = self.accounts.admit(caller.principal, Instant::now())?;
        let (mut parts, body) = request.into_parts();
        let declared = parts.headers.get(CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse().ok());
        let (bytes, weight) = self.receive_body(body, declared).await?;
        parts.extensions.insert(caller);
        parts.extensions.insert(caller.principal);
        Ok(AdmittedRequest {
            request: Request::from_parts(parts, Body::from(bytes)),
            caller: Some((caller, place)),
            weight,
        })
    }

    /// Reads the whole body, within its size limit, its time limit and the limit of all bodies together.
    async fn receive_body(
        &self,
        body: Body,
        declared: Option<usize>,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), HttpProblem> {
        if declared.is_some_and(|length| length > self.limits.body) {
            return Err(self.too_large());
        }
        let received = tokio::time::timeout(self.limits.receive, self.collect_body(body)).await;
        received.unwrap_or_else(|_| {
            let message = format!("the body did not come within {} s", self.limits.receive.as_secs());
            Err(HttpProblem::new(StatusCode::REQUEST_TIMEOUT, "http.slow", message)
                .with_hint("send it faster")
                .closing_connection())
        })
    }

    async fn collect_body(&self, mut body: Body) -> Result<(Bytes, Option<OwnedSemaphorePermit>), HttpProblem> {
        let mut bytes = Vec::new();
        let mut weight: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let broken =
                |_| HttpProblem::new(StatusCode::BAD_REQUEST, "http.body", "the body ended early").closing_connection();
            let Ok(data) = frame.map_err(broken)?.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > self.limits.body {
                return Err(self.too_large());
            }
            bytes.extend_from_slice(&data);
            let held = weight.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let units = bytes.len().div_ceil(WEIGHT_UNIT_BYTES).saturating_sub(held);
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            let Ok(more) = Arc::clone(&self.bodies).try_acquire_many_owned(units) else {
                let message = "the server holds as many requests as it can";
                return Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "http.full", message)
                    .with_hint("try again soon")
                    .with_retry_after(Duration::from_secs(1))
                    .closing_connection());
            };
            match &mut weight {
                Some(weight) => weight.merge(more),
                None => weight = Some(more),
            }
        }
        Ok((bytes.into(), weight))
    }

    fn too_large(&self) -> HttpProblem {
        let message = format!("the body has more than {} bytes", self.limits.body);
        HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "http.size", message)
            .with_rule("listen.limits.body")
            .with_hint("send less: large data belongs into the sandbox by a tool or a mounted folder")
            .closing_connection()
    }
}

/// An admitted request, with the permits that its response releases.
struct AdmittedRequest {
    request: Request,
    caller: Option<(Caller, RequestPermit)>,
    weight: Option<OwnedSemaphorePermit>,
}

/// The middleware that guards every request.
pub(crate) async fn guard_request(State(guard): State<Arc<RequestGuard>>, request: Request, next: Next) -> Response {
    let (method, began) = (request.method().clone(), Instant::now());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let page = cors::listed_origin(&guard.hosts, request.headers());
    let mut response = guard.answer_request(request, &route, page.is_some(), next).await;
    let headers = response.headers_mut();
    if let Some(origin) = page {
        cors::allow_origin(headers, origin);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    guard.metrics.count_request(&route, response.status());
    tracing::debug!(%method, route, status = response.status().as_u16(), ms = began.elapsed().as_millis(), "answered");
    response
}

/// Keeps the caller's permit until the response is sent. A streamed response ends when the caller loses access.
fn guard_response(response: Response, caller: Option<(Caller, RequestPermit)>, gate: &Arc<Authenticator>) -> Response {
    let Some((caller, place)) = caller else {
        return response;
    };
    response.map(|inner| {
        let streams = inner.size_hint().exact().is_none();
        let gate = Arc::clone(gate);
        Body::new(GuardedBody {
            inner,
            _place: place,
            end: streams
                .then(|| Box::pin(wait_until_refused(gate, caller)) as Pin<Box<dyn Future<Output = ()> + Send>>),
        })
    })
}

/// Waits until the caller loses access.
async fn wait_until_refused(gate: Arc<Authenticator>, caller: Caller) {
    loop {
        tokio::time::sleep(REAUTH_INTERVAL).await;
        if !gate.is_still_allowed(caller) {
            return;
        }
    }
}

/// The body of a response in progress.
struct GuardedBody {
    inner: Body,
    _place: RequestPermit,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl http_body::Body for GuardedBody {
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
