//! Refusals of the egress proxy: their texts, and how each protocol carries them.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use ringfence_policy::{Decision, HostError, RuleRef, UrlPathError};
use serde_json::json;

use crate::refusal::RequestRefusal;

/// The header that carries the code of a refusal; responses from outside never have it.
pub(super) const CODE_HEADER: HeaderName = HeaderName::from_static("x-ringfence-code");

/// A refusal with its HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) status: StatusCode,
    pub(super) refusal: RequestRefusal,
}

impl From<RequestRefusal> for Denial {
    fn from(refusal: RequestRefusal) -> Denial {
        let status = match refusal.code {
            "net.host" | "net.protocol" | "net.path" => StatusCode::BAD_REQUEST,
            "net.dns" | "net.unreachable" | "net.tls" => StatusCode::BAD_GATEWAY,
            "limit.rate" | "limit.connections" => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::FORBIDDEN,
        };
        Denial { status, refusal }
    }
}

impl Denial {
    pub(super) fn misdirected(message: impl Into<String>) -> Denial {
        Denial {
            status: StatusCode::MISDIRECTED_REQUEST,
            refusal: authority(message),
        }
    }

    /// Whether the attempt was forbidden; other denials are failures of the network.
    pub(super) fn is_violation(&self) -> bool {
        !matches!(self.refusal.code, "net.dns" | "net.unreachable" | "net.tls")
    }

    /// Returns the body in JSON, which a program or the model behind it can act on.
    pub(super) fn body_json(&self) -> Bytes {
        let RequestRefusal {
            code,
            message,
            rule,
            hint,
            ..
        } = &self.refusal;
        let body = json!({"code": code, "message": message, "rule": rule, "hint": hint});
        Bytes::from(format!("{body}\n"))
    }

    /// Builds the HTTP response with the refusal as its body.
    pub(super) fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body_json());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CODE_HEADER, HeaderValue::from_static(self.refusal.code));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Returns the response as HTTP/1 bytes, after which the connection closes.
    pub(super) fn http1_bytes(&self) -> Vec<u8> {
        let body = self.body_json();
        let reason = self.status.canonical_reason().unwrap_or("Refused");
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             {CODE_HEADER}: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
            self.status.as_u16(),
            body.len(),
            self.refusal.code,
        )
        .into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// Returns the refusal for a decision other than allow.
pub(super) fn refusal_of_decision(decision: &Decision, what: &str) -> Option<RequestRefusal> {
    match decision {
        Decision::Allow(_) => None,
        Decision::Ask(rule) => Some(RequestRefusal::needs_approval(what, rule.as_str())),
        Decision::Deny(rule) => Some(denied_by_rule(what, rule)),
    }
}

fn denied_by_rule(what: &str, rule: &RuleRef) -> RequestRefusal {
    let hint = match rule.as_str() {
        "net.enabled" => "this session has no network: do without it",
        "net.default" => "no rule allows it: use a host that is allowed, or ask the operator to add a rule",
        _ => "do without it, or ask the operator; `ringfence policy explain` shows why",
    };
    RequestRefusal::new("net.denied", format!("`{what}` may not be reached"))
        .by_rule(rule.as_str())
        .with_hint(hint)
}

pub(super) fn host(error: &HostError) -> RequestRefusal {
    RequestRefusal::new("net.host", format!("the host cannot be used: {error}"))
        .by_rule("builtin.hosts")
        .with_hint("write the host as a plain lower-case name or a decimal address")
}

pub(super) fn path(error: &UrlPathError) -> RequestRefusal {
    RequestRefusal::new(
        "net.path",
        format!("this host has rules for paths, and the path is not canonical: {error}"),
    )
    .by_rule("builtin.paths")
    .with_hint("write the path without dots, double slashes or needless encodings")
}

pub(super) fn protocol(message: impl Into<String>) -> RequestRefusal {
    RequestRefusal::new("net.protocol", message)
        .by_rule("builtin.protocols")
        .with_hint("use plain HTTP/1.1 through the proxy, or TLS in a CONNECT or SOCKS5 tunnel")
}

pub(super) fn authority(message: impl Into<String>) -> RequestRefusal {
    RequestRefusal::new("net.authority", message)
        .by_rule("builtin.authority")
        .with_hint("ask each host through a connection of its own")
}

pub(super) fn sni(message: impl Into<String>) -> RequestRefusal {
    RequestRefusal::new("net.sni", message)
        .by_rule("builtin.sni")
        .with_hint("use the host's own name in TLS, the same as in the tunnel")
}

/// Refuses TLS that may hide another name and is not terminated here.
pub(super) fn hidden(host: &str) -> RequestRefusal {
    let message = format!("TLS for `{host}` carries `encrypted_client_hello`, which can hide the name of another host");
    RequestRefusal::new("net.ech", message)
        .by_rule("builtin.ech")
        .with_hint("turn encrypted client hello off in the program, or ask the operator for `net.inspect: all`")
}

/// Refuses a flow that a policy change forbids without naming a rule.
pub(super) fn changed() -> RequestRefusal {
    RequestRefusal::new("net.denied", "other rules came into force, and they forbid it")
        .with_hint("do without it, or ask the operator")
}

pub(super) fn dns(host: &str, why: &str) -> RequestRefusal {
    RequestRefusal::new("net.dns", format!("`{host}` has no address: {why}"))
        .by_rule("builtin.dns")
        .with_hint("check the spelling of the host")
}

pub(super) fn no_name_server(host: &str, why: &str) -> RequestRefusal {
    RequestRefusal::new("net.dns", format!("the address of `{host}` cannot be looked up: {why}"))
        .by_rule("builtin.dns")
        .with_hint("check the network and the name servers of this machine (`/etc/resolv.conf`), then try again")
}

pub(super) fn unreachable(host: &str, why: &str) -> RequestRefusal {
    RequestRefusal::new("net.unreachable", format!("`{host}` does not answer: {why}"))
        .with_hint("the host is allowed, but it cannot be reached now; try again later")
}

pub(super) fn tls(host: &str, why: &str) -> RequestRefusal {
    RequestRefusal::new("net.tls", format!("`{host}` cannot be trusted: {why}"))
        .by_rule("builtin.tls")
        .with_hint("the host's certificate must be valid for its name and known to this machine")
}

#[cfg(test)]
mod tests;
