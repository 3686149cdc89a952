//! Asks the policy about requests and turns its decisions into refusals. This module decides nothing itself.

use std::net::IpAddr;

use ringfence_policy::{AddressKind, Decision, Host, HostRequest, Policy, Scheme};

use super::refuse;
use super::resolve::ResolvedHost;
use crate::refusal::RequestRefusal;

/// Formats a request for messages.
pub(super) fn display_request(request: &HostRequest) -> String {
    let scheme = scheme_name(request.scheme);
    let port = Some(request.port).filter(|port| *port != request.scheme.port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = request.path.as_ref().map(ToString::to_string).unwrap_or_default();
    match request.host {
        Host::Ip(IpAddr::V6(address)) => format!("{scheme}://[{address}]{port}{path}"),
        Host::Ip(IpAddr::V4(_)) | Host::Name(_) => format!("{scheme}://{}{port}{path}", request.host),
    }
}

pub(super) fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Https => "https",
        Scheme::Http => "http",
    }
}

/// Checks whether the host may be reached, before it is resolved. Returns the rule that allows it.
pub(super) fn check_host(policy: &Policy, request: &HostRequest) -> Result<String, RequestRefusal> {
    let decision = policy.decide_host(request);
    let what = match request.method {
        Some(method) => format!("{} {}", format!("{method:?}").to_uppercase(), display_request(request)),
        None => display_request(request),
    };
    match refuse::refusal_of_decision(&decision, &what) {
        Some(refusal) => Err(refusal),
        None => Ok(decision.rule().as_str().to_owned()),
    }
}

/// Checks every name and every address that the host resolved to.
pub(super) fn check_resolved(
    policy: &Policy,
    request: &HostRequest,
    resolved: &ResolvedHost,
) -> Result<(), RequestRefusal> {
    for alias in &resolved.aliases {
        let host: Host = alias.parse().map_err(|error| refuse::host(&error))?;
        let as_alias = HostRequest {
            host,
            ..request.clone()
        };
        if let Decision::Deny(rule) = policy.decide_alias(&as_alias) {
            let message = format!(
                "`{}` is another name of `{}`, which may not be reached",
                request.host, as_alias.host
            );
            return Err(RequestRefusal::new("net.denied", message)
                .by_rule(rule.as_str())
                .with_hint("do without it, or ask the operator"));
        }
    }
    resolved
        .addresses
        .iter()
        .try_for_each(|address| self::check_address(policy, request, *address))
}

/// Checks whether one address of the request's host may be dialled.
pub(super) fn check_address(policy: &Policy, request: &HostRequest, address: IpAddr) -> Result<(), RequestRefusal> {
    match policy.decide_address(address, request) {
        Decision::Allow(_) => Ok(()),
        Decision::Ask(rule) => Err(RequestRefusal::needs_approval(&display_request(request), rule.as_str())),
        Decision::Deny(rule) => {
            let kind = AddressKind::classify(address).name();
            let message = format!(
                "`{}` leads to `{address}` ({kind}), which may not be reached",
                request.host
            );
            Err(RequestRefusal::new("net.address", message)
                .by_rule(rule.as_str())
                .with_hint("only a rule with `addresses` opens a private network; ask the operator"))
        }
    }
}
