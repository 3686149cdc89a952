use super::*;
use crate::{Ceiling, Decision, Draft, Policy};

fn policy(net: &str) -> Policy {
    let text = format!("net: {{ enabled: true, {net} }}");
    Draft::parse(&text, "x").unwrap().under(&Ceiling::unlimited()).unwrap()
}

/// Parses a request from `METHOD scheme://host:port/path`.
fn request(text: &str) -> HostRequest {
    let (method, url) = text.split_once(' ').unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let scheme = if scheme == "http" { Scheme::Http } else { Scheme::Https };
    let (host, port) = match host.split_once(':') {
        Some((host, port)) => (host, port.parse().unwrap()),
        None => (host, scheme.port()),
    };
    HostRequest {
        host: host.parse().unwrap(),
        scheme,
        port,
        method: Some(serde_json::from_value(method.into()).unwrap()),
        path: Some(path.parse().unwrap()),
    }
}

#[track_caller]
fn check(net: &str, url: &str, expected: (RuleEffect, &str)) {
    let decision = policy(net).decide_host(&request(url));
    assert_eq!((decision.effect(), decision.rule().as_str()), expected, "{net} {url}");
}

#[test]
fn a_bare_host_means_https_on_443() {
    let net = "allowlist: [a.example.org]";
    let default = (RuleEffect::Deny, "net.default");
    check(
        net,
        "GET https://a.example.org",
        (RuleEffect::Allow, "net.allowlist[0]"),
    );
    check(
        net,
        "POST https://a.example.org/x",
        (RuleEffect::Allow, "net.allowlist[0]"),
    );
    check(net, "GET http://a.example.org", default);
    check(net, "GET https://a.example.org:8443", default);
    check(net, "GET http://a.example.org:443", default);
    check(net, "GET https://b.example.org", default);
    check(
        "allowlist: [{ host: a.example.org, scheme: http }]",
        "GET http://a.example.org",
        (RuleEffect::Allow, "net.allowlist[0]"),
    );
}

#[test]
fn methods_and_paths_narrow_an_allow_rule() {
    let net = "allowlist: [{ host: a.example.org, methods: [GET], paths: ['/repos/**'] }]";
    let default = (RuleEffect::Deny, "net.default");
    check(
        net,
        "GET https://a.example.org/repos/x",
        (RuleEffect::Allow, "net.allowlist[0]"),
    );
    check(
        net,
        "HEAD https://a.example.org/repos/x",
        (RuleEffect::Allow, "net.allowlist[0]"),
    );
    check(net, "OPTIONS https://a.example.org/repos/x", default);
    check(net, "POST https://a.example.org/repos/x", default);
    check(net, "GET https://a.example.org/other", default);
}

#[test]
fn a_denylist_wins_over_everything() {
    let net = "default: allow, presets: [npm], allowlist: [a.example.org], denylist: [a.example.org, registry.npmjs.org, { host: b.example.org, methods: [GET] }, 93.184.216.34]";
    // The entry of the built-in default comes first.
    check(net, "GET https://a.example.org", (RuleEffect::Deny, "net.denylist[1]"));
    check(
        net,
        "GET http://a.example.org:9999",
        (RuleEffect::Deny, "net.denylist[1]"),
    );
    check(
        net,
        "GET https://registry.npmjs.org/x",
        (RuleEffect::Deny, "net.denylist[2]"),
    );
    check(net, "HEAD https://b.example.org", (RuleEffect::Deny, "net.denylist[3]"));
    check(net, "POST https://b.example.org", (RuleEffect::Allow, "net.default"));
    check(
        net,
        "GET https://api.openai.com",
        (RuleEffect::Deny, "net.denylist[0].model-vendors[0]"),
    );
    let c = request("GET https://c.example.org");
    let denied = policy(net).decide_address("93.184.216.34".parse().unwrap(), &c);
    assert_eq!(denied.rule().as_str(), "net.denylist[4]");
}

#[test]
fn without_a_network_nothing_else_counts() {
    let text = "net: { enabled: false, allowlist: [a.example.org] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let decision = policy.decide_host(&request("GET https://a.example.org"));
    assert_eq!(decision.rule().as_str(), "net.enabled");
}

#[test]
fn an_open_default_stays_on_its_ports_and_in_public() {
    let net = "default: allow";
    check(net, "GET https://a.example.org", (RuleEffect::Allow, "net.default"));
    check(net, "GET http://a.example.org", (RuleEffect::Allow, "net.default"));
    check(net, "GET https://a.example.org:22", (RuleEffect::Deny, "net.default"));
    check(net, "GET http://10.0.0.1", (RuleEffect::Deny, "builtin.addresses"));
    check(net, "GET http://127.0.0.1", (RuleEffect::Deny, "builtin.addresses"));
    check(net, "GET http://localhost", (RuleEffect::Deny, "builtin.hosts"));
    check(net, "GET http://x.localhost", (RuleEffect::Deny, "builtin.hosts"));
    check(
        "default: ask",
        "GET https://a.example.org",
        (RuleEffect::Ask, "net.default"),
    );
}

#[track_caller]
fn resolves(net: &str, url: &str, address: &str, expected: RuleEffect) {
    let decision: Decision = policy(net).decide_address(address.parse().unwrap(), &request(url));
    assert_eq!(decision.effect(), expected, "{net} {url} {address} {decision:?}");
}

#[test]
fn a_private_address_needs_its_own_rule() {
    let net = "allowlist: [a.example.org, { host: db.example.org, addresses: [10.0.0.0/8, '0.0.0.0/0'] }]";
    resolves(net, "GET https://a.example.org", "93.184.216.34", RuleEffect::Allow);
    resolves(net, "GET https://a.example.org", "10.1.2.3", RuleEffect::Deny);
    resolves(net, "GET https://b.example.org", "93.184.216.34", RuleEffect::Deny);
    resolves(net, "GET https://db.example.org", "10.1.2.3", RuleEffect::Allow);
    resolves(net, "GET https://db.example.org", "192.168.1.1", RuleEffect::Allow);
    for never in [
        "127.0.0.1",
        "169.254.169.254",
        "169.254.1.1",
        "168.63.129.16",
        "100.100.100.200",
        "0.0.0.0",
        "::1",
        "::ffff:10.0.0.1",
        "fe80::1",
    ] {
        resolves(net, "GET https://db.example.org", never, RuleEffect::Deny);
    }
}

#[test]
fn a_tunnel_is_judged_by_what_is_known_and_says_when_more_must_be_seen() {
    let policy = policy(
        "allowlist: [{ host: a.example.org, methods: [GET] }, b.example.org], denylist: [{ host: c.example.org, paths: ['/x'] }]",
    );
    let open = |host: &str| HostRequest {
        host: host.parse().unwrap(),
        scheme: Scheme::Https,
        port: 443,
        method: None,
        path: None,
    };
    for (host, verdict, inspects) in [
        ("a.example.org", RuleEffect::Allow, true),
        ("b.example.org", RuleEffect::Allow, false),
        ("c.example.org", RuleEffect::Deny, true),
        ("d.example.org", RuleEffect::Deny, false),
    ] {
        assert_eq!(policy.decide_host(&open(host)).effect(), verdict, "{host}");
        assert_eq!(policy.needs_inspection(&open(host)), inspects, "{host}");
    }
}
