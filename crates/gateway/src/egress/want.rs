//! The target of a request: where it goes, and whether that has exactly one reading.

use http::request::Parts;
use http::{HeaderMap, header};
use ringfence_journal::{Target, Text};
use ringfence_policy::{HostRequest, Method, Policy, Scheme, UrlPath, UrlPathError};

use super::head;
use super::judge;
use super::refuse::{self, Denial};
use super::upstream::Origin;
use crate::refusal::Refusal;

/// Headers by which some servers let a request override its method.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// A request's target in canonical form.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) request: HostRequest,
    pub(super) target: Target,
    /// Why the path has no canonical form; `None` if it has one.
    odd: Option<UrlPathError>,
    overrides: bool,
}

/// Returns the target for the journal; `host` may be invalid.
pub(super) fn target(scheme: Scheme, host: &str, port: u16) -> Target {
    Target {
        scheme: Text::clean(judge::scheme(scheme)),
        // User name and password before the host are not recorded.
        host: Text::clean(host.rsplit_once('@').map_or(host, |(_, host)| host)),
        port,
        method: None,
        path: None,
    }
}

/// Parses a request's target; `inside` is the origin of its tunnel, if it is in one.
pub(super) fn read(parts: &Parts, inside: Option<&Origin>) -> Result<Want, Box<(Target, Denial)>> {
    let mut to = match inside {
        Some(origin) => target(origin.scheme, &origin.host.to_string(), origin.port),
        None => target(
            Scheme::Http,
            parts.uri.authority().map_or("", |place| place.as_str()),
            0,
        ),
    };
    to.method = Some(Text::clean(parts.method.as_str()));
    to.path = Some(Text::clean(parts.uri.path()));
    let origin = match inside {
        Some(origin) => within(parts, origin).map(|()| origin.clone()),
        None => absolute(parts),
    };
    let origin = match origin {
        Ok(origin) => origin,
        Err(denial) => return Err(Box::new((to, denial))),
    };
    to.host = Text::clean(&origin.host.to_string());
    to.port = origin.port;
    let (path, odd) = match parts.uri.path().parse::<UrlPath>() {
        Ok(path) => (Some(path), None),
        Err(error) => (None, Some(error)),
    };
    Ok(Want {
        request: HostRequest {
            host: origin.host,
            scheme: origin.scheme,
            port: origin.port,
            method: method(&parts.method),
            path,
        },
        target: to,
        odd,
        overrides: OVERRIDES.iter().any(|name| parts.headers.contains_key(*name)),
    })
}

impl Want {
    /// Returns the certain part of the request: an override header makes the method uncertain.
    pub(super) fn certain(&self) -> HostRequest {
        HostRequest {
            method: self.request.method.filter(|_| !self.overrides),
            ..self.request.clone()
        }
    }

    /// Refuses requests that rules about methods or paths cannot check, if the policy has such rules.
    pub(super) fn seen(&self, policy: &Policy) -> Result<(), Refusal> {
        if !policy.inspects(&self.request) {
            return Ok(());
        }
        if let Some(error) = &self.odd {
            return Err(refuse::path(error));
        }
        let method = match (self.request.method, self.overrides) {
            (Some(_), false) => return Ok(()),
            (None, _) => "this method",
            (Some(_), true) => "a header that changes the method",
        };
        let message = format!("`{}` has rules for methods, and {method} is in none", self.request.host);
        Err(Refusal::new("net.denied", message)
            .by("builtin.methods")
            .hint("use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS by their own names"))
    }
}

/// Returns the method as the policy knows it.
pub(super) fn method(method: &http::Method) -> Option<Method> {
    Some(match method.as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        _ => return None,
    })
}

/// Returns the origin of a request to a proxy.
fn absolute(parts: &Parts) -> Result<Origin, Denial> {
    let place = parts
        .uri
        .authority()
        .ok_or_else(|| refuse::protocol("a request to a proxy names its host: `GET http://host/path HTTP/1.1`"))?;
    if parts.uri.scheme_str() != Some("http") {
        let message = "only `http` is asked for in this way; for `https` open a tunnel with CONNECT";
        return Err(refuse::protocol(message).into());
    }
    let (host, port) = head::authority(place.as_str())?;
    let origin = Origin {
        scheme: Scheme::Http,
        host,
        port: port.unwrap_or(Scheme::Http.port()),
    };
    if !says(&parts.headers, &origin)? {
        let refusal = refuse::authority("the `Host` of the request is not the host of its URL");
        return Err(Denial {
            status: http::StatusCode::BAD_REQUEST,
            refusal,
        });
    }
    Ok(origin)
}

/// Checks that a request in a tunnel is for the tunnel's host.
fn within(parts: &Parts, origin: &Origin) -> Result<(), Denial> {
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
        let same_scheme = parts.uri.scheme_str() == Some(judge::scheme(origin.scheme));
        if !same_scheme || !is(place.as_str(), origin)? {
            return Err(misdirected());
        }
    } else if !parts.headers.contains_key(header::HOST) {
        return Err(refuse::protocol("the request names no host").into());
    }
    if !says(&parts.headers, origin)? {
        return Err(misdirected());
    }
    Ok(())
}

/// Whether every `Host` header names this origin.
fn says(headers: &HeaderMap, origin: &Origin) -> Result<bool, Denial> {
    for host in headers.get_all(header::HOST) {
        let host = host.to_str().map_err(|_| refuse::protocol("a `Host` that is none"))?;
        if !is(host, origin)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is(text: &str, origin: &Origin) -> Result<bool, Denial> {
    let (host, port) = head::authority(text)?;
    Ok(host == origin.host && port.unwrap_or(origin.scheme.port()) == origin.port)
}

#[cfg(test)]
mod tests;
