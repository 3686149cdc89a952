//! The target of a request: where it goes, and whether that has exactly one reading.

use http::request::Parts;
use http::{HeaderMap, header};
use ringfence_journal::{CleanText, EgressTarget};
use ringfence_policy::{HostRequest, HttpMethod, Policy, Scheme, UrlPath, UrlPathError};

use super::connection_pool::RequestOrigin;
use super::head;
use super::policy_check;
use super::refuse::{self, Denial};
use crate::refusal::RequestRefusal;

/// Headers by which some servers let a request override its method.
const METHOD_OVERRIDE_HEADERS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// A request's target in canonical form.
#[derive(Debug)]
pub(super) struct RequestTarget {
    pub(super) request: HostRequest,
    pub(super) target: EgressTarget,
    /// Why the path has no canonical form; `None` if it has one.
    path_error: Option<UrlPathError>,
    overrides: bool,
}

/// Returns the target for the journal; `host` may be invalid.
pub(super) fn flow_target(scheme: Scheme, host: &str, port: u16) -> EgressTarget {
    EgressTarget {
        scheme: CleanText::clean(policy_check::scheme_name(scheme)),
        // User name and password before the host are not recorded.
        host: CleanText::clean(host.rsplit_once('@').map_or(host, |(_, host)| host)),
        port,
        method: None,
        path: None,
    }
}

/// Parses a request's target; `inside` is the origin of its tunnel, if it is in one.
pub(super) fn parse_target(
    parts: &Parts,
    inside: Option<&RequestOrigin>,
) -> Result<RequestTarget, Box<(EgressTarget, Denial)>> {
    let mut to = match inside {
        Some(origin) => flow_target(origin.scheme, &origin.host.to_string(), origin.port),
        None => flow_target(
            Scheme::Http,
            parts.uri.authority().map_or("", |place| place.as_str()),
            0,
        ),
    };
    to.method = Some(CleanText::clean(parts.method.as_str()));
    to.path = Some(CleanText::clean(parts.uri.path()));
    let origin = match inside {
        Some(origin) => check_tunnel_host(parts, origin).map(|()| origin.clone()),
        None => absolute_origin(parts),
    };
    let origin = match origin {
        Ok(origin) => origin,
        Err(denial) => return Err(Box::new((to, denial))),
    };
    to.host = CleanText::clean(&origin.host.to_string());
    to.port = origin.port;
    let (path, odd) = match parts.uri.path().parse::<UrlPath>() {
        Ok(path) => (Some(path), None),
        Err(error) => (None, Some(error)),
    };
    Ok(RequestTarget {
        request: HostRequest {
            host: origin.host,
            scheme: origin.scheme,
            port: origin.port,
            method: policy_method(&parts.method),
            path,
        },
        target: to,
        path_error: odd,
        overrides: METHOD_OVERRIDE_HEADERS
            .iter()
            .any(|name| parts.headers.contains_key(*name)),
    })
}

impl RequestTarget {
    /// Returns the certain part of the request: an override header makes the method uncertain.
    pub(super) fn certain_request(&self) -> HostRequest {
        HostRequest {
            method: self.request.method.filter(|_| !self.overrides),
            ..self.request.clone()
        }
    }

    /// Refuses requests that rules about methods or paths cannot check, if the policy has such rules.
    pub(super) fn check_inspectable(&self, policy: &Policy) -> Result<(), RequestRefusal> {
        if !policy.needs_inspection(&self.request) {
            return Ok(());
        }
        if let Some(error) = &self.path_error {
            return Err(refuse::path(error));
        }
        let method = match (self.request.method, self.overrides) {
            (Some(_), false) => return Ok(()),
            (None, _) => "this method",
            (Some(_), true) => "a header that changes the method",
        };
        let message = format!("`{}` has rules for methods, and {method} is in none", self.request.host);
        Err(RequestRefusal::new("net.denied", message)
            .by_rule("builtin.methods")
            .with_hint("use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS by their own names"))
    }
}

/// Returns the method as the policy knows it.
pub(super) fn policy_method(method: &http::Method) -> Option<HttpMethod> {
    Some(match method.as_str() {
        "GET" => HttpMethod::Get,
        "HEAD" => HttpMethod::Head,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        "OPTIONS" => HttpMethod::Options,
        _ => return None,
    })
}

/// Returns the origin of a request to a proxy.
fn absolute_origin(parts: &Parts) -> Result<RequestOrigin, Denial> {
    let place = parts
        .uri
        .authority()
        .ok_or_else(|| refuse::protocol("a request to a proxy names its host: `GET http://host/path HTTP/1.1`"))?;
    if parts.uri.scheme_str() != Some("http") {
        let message = "only `http` is asked for in this way; for `https` open a tunnel with CONNECT";
        return Err(refuse::protocol(message).into());
    }
    let (host, port) = head::parse_authority(place.as_str())?;
    let origin = RequestOrigin {
        scheme: Scheme::Http,
        host,
        port: port.unwrap_or(Scheme::Http.port()),
    };
    if !host_headers_match(&parts.headers, &origin)? {
        let refusal = refuse::authority("the `Host` of the request is not the host of its URL");
        return Err(Denial {
            status: http::StatusCode::BAD_REQUEST,
            refusal,
        });
    }
    Ok(origin)
}

/// Checks that a request in a tunnel is for the tunnel's host.
fn check_tunnel_host(parts: &Parts, origin: &RequestOrigin) -> Result<(), Denial> {
    let misdirected = || {
        let tunnel = origin.authority();
        Denial::misdirected(format!(
            "this connection is for `{tunnel}`, the request is for another host"
        ))
    };
    if parts.method == http::Method::CONNECT {
        return Err(refuse::protocol("a tunnel inside a tunnel").into());
    }
    if let Some(place) = parts.uri.authority() {
        let same_scheme = parts.uri.scheme_str() == Some(policy_check::scheme_name(origin.scheme));
        if !same_scheme || !names_origin(place.as_str(), origin)? {
            return Err(misdirected());
        }
    } else if !parts.headers.contains_key(header::HOST) {
        return Err(refuse::protocol("the request names no host").into());
    }
    if !host_headers_match(&parts.headers, origin)? {
        return Err(misdirected());
    }
    Ok(())
}

/// Whether every `Host` header names this origin.
fn host_headers_match(headers: &HeaderMap, origin: &RequestOrigin) -> Result<bool, Denial> {
    for host in headers.get_all(header::HOST) {
        let host = host.to_str().map_err(|_| refuse::protocol("a `Host` that is none"))?;
        if !names_origin(host, origin)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn names_origin(text: &str, origin: &RequestOrigin) -> Result<bool, Denial> {
    let (host, port) = head::parse_authority(text)?;
    Ok(host == origin.host && port.unwrap_or(origin.scheme.port()) == origin.port)
}

#[cfg(test)]
mod tests;
