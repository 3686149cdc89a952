//! `fetch` for code: one request and its whole response, on the same path as a program's connection. Code has no
//! connection of its own, so this module asks the proxy like any client, and a refusal of the proxy is final.

mod request;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::LOCATION;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ringfence_journal::CallOutcome;
use ringfence_policy::HostRequest;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use url::Url;

use super::refuse::{self, CODE_HEADER, Denial};
use super::{Egress, forward, head, policy_check, serve, target};
use crate::refusal::{CallErrorBody, RequestRefusal};
use request::{FetchRequest, RedirectMode};

/// Most bytes of a request or response body. As base64 in JSON a body still fits one call result.
pub(super) const MAX_BODY: usize = 8 << 20;
/// Most concurrent fetches of one session, which bounds their memory; further ones wait.
pub(super) const MAX_CONCURRENT_FETCHES: usize = 8;
/// Most redirects that one request may follow.
const MAX_REDIRECTS: usize = 20;
/// Most header lines of a response: a few more than a host may send, for those that are added on the way.
const MAX_HEADERS: usize = 128;
/// Bytes that may be in transit between the fetch and the proxy.
const PIPE_CAPACITY: usize = 64 * 1024;
/// The rule that the bounds of this module refuse by.
const RULE: &str = "builtin.fetch";

/// Why there is no response: the outcome of the call, and the error that the program gets.
pub(crate) type FetchError = (CallOutcome, CallErrorBody);

/// The response as a program gets it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FetchResponse {
    url: String,
    redirected: bool,
    status: u16,
    status_text: &'static str,
    headers: Vec<(String, String)>,
    /// The body in base64, also if it is text.
    body: String,
}

/// The refusal that the proxy sends.
#[derive(Deserialize)]
struct ProxyRefusal {
    code: String,
    message: String,
    rule: Option<String>,
    hint: Option<String>,
}

/// Whether a request that may have been sent can be repeated: its method changes nothing.
pub(crate) fn is_repeatable(body: &str) -> bool {
    FetchRequest::parse(body).is_ok_and(|fetch| matches!(fetch.method, Method::GET | Method::HEAD | Method::OPTIONS))
}

impl Egress {
    /// Makes the request that the JSON in `body` describes, and returns the response as JSON text. Each redirect
    /// target is checked like a first request.
    pub(crate) async fn fetch(self: &Arc<Self>, body: &str) -> Result<String, FetchError> {
        let mut fetch = FetchRequest::parse(body).map_err(refused_fetch)?;
        fetch.insert_stand_ins(&self.attachments().environment());
        // The semaphore never closes.
        let _turn = self.shared.fetches.acquire().await;
        for followed in 0..=MAX_REDIRECTS {
            let mut carried = JoinSet::new();
            let response = self.fetch_once(&fetch, &mut carried).await?;
            let Some(next) = redirect_target(&fetch, &response)? else {
                return self.read_fetch_response(&fetch, followed > 0, response).await;
            };
            fetch.follow_redirect(next, response.status());
        }
        let message = format!("`{}` was sent on more than {MAX_REDIRECTS} times", fetch.host());
        Err(refused_fetch(
            RequestRefusal::new("net.redirects", message)
                .by_rule(RULE)
                .with_hint("ask with `redirect: \"manual\"` and look where each answer leads"),
        ))
    }

    /// Makes one request to one host. The tasks that carry it end with `carried`.
    async fn fetch_once(
        self: &Arc<Self>,
        fetch: &FetchRequest,
        carried: &mut JoinSet<()>,
    ) -> Result<Response<Incoming>, FetchError> {
        let origin = fetch.origin().map_err(refused_fetch)?;
        let permit = match self.shared.limiter.acquire_connection() {
            Ok(permit) => permit,
            Err(over) => {
                let denial = Denial::from(over.refusal);
                let to = target::flow_target(origin.scheme, &origin.host.to_string(), origin.port);
                if over.first && !self.record_refusal(&to, &denial).await {
                    return Err(broken_fetch(fetch, "its refusal cannot be written down"));
                }
                return Err((CallOutcome::Refused, denial.refusal.into()));
            }
        };
        let request = fetch.build_request(&origin).map_err(refused_fetch)?;
        let (near, far) = tokio::io::duplex(PIPE_CAPACITY);
        let egress = Arc::clone(self);
        carried.spawn(async move {
            egress
                .while_recorded(serve::serve_http1(&egress, far, Some(origin)))
                .await;
            drop(permit);
        });
        let mut builder = http1::Builder::new();
        builder.max_headers(MAX_HEADERS);
        let shaken = builder.handshake(TokioIo::new(near)).await;
        let (mut sender, connection) = shaken.map_err(|error| broken_fetch(fetch, &error.to_string()))?;
        carried.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a request of `fetch` broke off");
            }
        });
        let sent = sender.send_request(request).await;
        let response = sent.map_err(|error| self.broke_off(fetch, &error.to_string()))?;
        if forward::head_size(response.headers()) > head::MAX_HEAD_BYTES {
            let message = format!(
                "the head of the answer has more than {} KiB",
                head::MAX_HEAD_BYTES >> 10
            );
            return Err(refused_fetch(
                RequestRefusal::new("net.too_large", message).by_rule(RULE),
            ));
        }
        if response.headers().contains_key(CODE_HEADER) {
            return Err(self.read_proxy_refusal(fetch, response).await);
        }
        Ok(response)
    }

    /// Returns the refusal that a response of the proxy stands for.
    async fn read_proxy_refusal(&self, fetch: &FetchRequest, response: Response<Incoming>) -> FetchError {
        let outcome = match response.status() {
            StatusCode::BAD_GATEWAY => CallOutcome::Failed,
            _ => CallOutcome::Refused,
        };
        if fetch.method == Method::HEAD {
            // Such a response has no body that gives the reason.
            let code = response.headers().get(CODE_HEADER).and_then(|code| code.to_str().ok());
            let told = CallErrorBody {
                code: code.unwrap_or("net.denied").to_owned(),
                message: format!("`{}` was refused", fetch.host()),
                rule: None,
                hint: Some("ask with GET to hear which rule refused".to_owned()),
                retry_after_ms: None,
            };
            return (outcome, told);
        }
        let body = match self.read_fetch_body(fetch, response.into_body()).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        match serde_json::from_slice::<ProxyRefusal>(&body) {
            Ok(refused) => (
                outcome,
                CallErrorBody {
                    code: refused.code,
                    message: refused.message,
                    rule: refused.rule,
                    hint: refused.hint,
                    retry_after_ms: None,
                },
            ),
            Err(error) => broken_fetch(fetch, &error.to_string()),
        }
    }

    /// Returns the whole response as JSON text.
    async fn read_fetch_response(
        &self,
        fetch: &FetchRequest,
        redirected: bool,
        response: Response<Incoming>,
    ) -> Result<String, FetchError> {
        let (head, body) = response.into_parts();
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| {
                let value = value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
                (name.as_str().to_owned(), value)
            })
            .collect();
        let body = self.read_fetch_body(fetch, body).await?;
        let fetched = FetchResponse {
            url: fetch.url.as_str().to_owned(),
            redirected,
            status: head.status.as_u16(),
            status_text: head.status.canonical_reason().unwrap_or_default(),
            headers,
            body: STANDARD.encode(body),
        };
        serde_json::to_string(&fetched)
            .map_err(|error| refused_fetch(RequestRefusal::new("net.unreachable", error.to_string())))
    }

    /// Reads a body to its end.
    async fn read_fetch_body(&self, fetch: &FetchRequest, mut body: Incoming) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match self.shared.limiter.bytes_exhausted() {
                Some(refusal) => (CallOutcome::Refused, refusal.into()),
                None => self.broke_off(fetch, &format!("its answer broke off: {error}")),
            })?;
            if let Ok(part) = frame.into_data() {
                if bytes.len() + part.len() > MAX_BODY {
                    return Err(refused_fetch(too_large(&format!("the answer of `{}`", fetch.host()))));
                }
                bytes.extend_from_slice(&part);
            }
        }
        Ok(bytes)
    }
}

impl Egress {
    /// Returns why a request or its response broke off: a policy change that forbids it, or the network.
    fn broke_off(&self, fetch: &FetchRequest, why: &str) -> FetchError {
        let request = fetch.origin().ok().map(|origin| HostRequest {
            method: target::policy_method(&fetch.method),
            path: fetch.url.path().parse().ok(),
            ..origin.request()
        });
        let policy = self.policy().snapshot().policy;
        match request.and_then(|request| policy_check::check_host(&policy, &request).err()) {
            Some(refusal) => refused_fetch(refusal),
            None => broken_fetch(fetch, why),
        }
    }
}

/// Returns where a response redirects to; `None` if it is the last one.
fn redirect_target(fetch: &FetchRequest, response: &Response<Incoming>) -> Result<Option<Url>, FetchError> {
    let is_one = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_one) else {
        return Ok(None);
    };
    match fetch.redirect {
        RedirectMode::Manual => return Ok(None),
        RedirectMode::Error => {
            let message = format!("`{}` sends the request on, and `redirect` is `error`", fetch.host());
            return Err(refused_fetch(
                RequestRefusal::new("net.redirects", message).by_rule(RULE),
            ));
        }
        RedirectMode::Follow => {}
    }
    let next = location
        .to_str()
        .ok()
        .and_then(|location| fetch.url.join(location).ok());
    match next {
        Some(next) => Ok(Some(next)),
        None => Err(broken_fetch(fetch, "it sends the request on to what is no URL")),
    }
}

fn too_large(what: &str) -> RequestRefusal {
    RequestRefusal::new("net.too_large", format!("{what} has more than {} MiB", MAX_BODY >> 20))
        .by_rule(RULE)
        .with_hint("ask for less at once, such as a page or a range; a program under `exec` may stream what is larger")
}

fn refused_fetch(refusal: RequestRefusal) -> FetchError {
    (CallOutcome::Failed, refusal.into())
}

fn broken_fetch(fetch: &FetchRequest, why: &str) -> FetchError {
    refused_fetch(refuse::unreachable(&fetch.host(), why))
}
