//! CORS headers for web pages of the operator's origins, and responses to preflight requests.
//!
//! Only origins in `listen.origins` get these headers. Other pages of this machine may send requests, but not read the responses.

use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::hosts::Hosts;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, DELETE");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, \
     Mcp-Session-Id, Range, Traceparent, X-Request-Id",
);
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Range, Idempotent-Replayed, Location, Mcp-Session-Id, Retry-After, WWW-Authenticate",
);
/// How long browsers cache a preflight response, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// The header of a page in a public network that requests an address in a private one.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origin of a request, if the operator listed it.
pub(super) fn listed_origin(hosts: &Hosts, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    hosts.is_listed_origin(origin.to_str().ok()?).then(|| origin.clone())
}

/// The response to a preflight request, which carries no token and has no effect.
pub(super) fn preflight_response(method: &Method, asked: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    Some(response)
}

/// Allows a page of this origin to read the response.
pub(super) fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
