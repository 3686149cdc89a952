use http::Request;
use ringfence_policy::{Ceiling, Draft};

use super::*;

fn parts(method: &str, uri: &str, host: &str) -> Parts {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("host", host)
        .body(())
        .unwrap()
        .into_parts()
        .0
}

fn origin() -> RequestOrigin {
    RequestOrigin {
        scheme: Scheme::Https,
        host: "a.example".parse().unwrap(),
        port: 443,
    }
}

#[test]
fn the_wish_is_canonical() {
    let want = parse_target(&parts("GET", "http://A.example:80/%7Eb?q", "a.example."), None).unwrap();
    assert_eq!(want.request.host.to_string(), "a.example");
    assert_eq!(want.request.path.unwrap().as_str(), "/~b");
    assert_eq!(want.request.method, Some(HttpMethod::Get));
    assert_eq!(
        want.target.path.unwrap().as_str(),
        "/%7Eb",
        "what was asked for, without its query"
    );
}

#[test]
fn a_tunnel_has_one_host() {
    assert!(parse_target(&parts("GET", "/", "a.example:443"), Some(&origin())).is_ok());
    for (uri, host, status) in [
        ("/", "b.example", 421),
        ("/", "a.example:80", 421),
        ("http://a.example/", "a.example", 421),
        ("https://b.example/", "a.example", 421),
        ("/", "a.example@b.example", 400),
    ] {
        let unread = parse_target(&parts("GET", uri, host), Some(&origin())).unwrap_err();
        assert_eq!(unread.1.status.as_u16(), status, "{uri} {host}");
    }
}

#[test]
fn where_rules_look_the_unjudgeable_is_refused() {
    let policy = |net: &str| {
        let draft = Draft::parse(&format!("net: {{ enabled: true, {net} }}"), "t").unwrap();
        draft.under(&Ceiling::unlimited()).unwrap()
    };
    let seeing = policy("allowlist: [{ host: a.example, methods: [GET] }]");
    let blind = policy("allowlist: [a.example]");
    for (method, path, code) in [
        ("PROPFIND", "/", "net.denied"),
        ("GET", "/a/../b", "net.path"),
        ("GET", "//a", "net.path"),
    ] {
        let want = parse_target(&parts(method, path, "a.example"), Some(&origin())).unwrap();
        assert_eq!(
            want.check_inspectable(&seeing).unwrap_err().code,
            code,
            "{method} {path}"
        );
        assert_eq!(want.check_inspectable(&blind), Ok(()), "{method} {path}");
    }
}
