use super::*;

fn hosts() -> Hosts {
    let names = ["ringfence.example.org".to_owned()];
    let origins = ["https://console.example.org".to_owned()];
    Hosts::new("192.0.2.7:7411".parse().unwrap(), &names, &origins).unwrap()
}

#[track_caller]
fn check(uri: &str, headers: &[(&'static str, &str)], passes: bool) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let outcome = hosts().check_request(&uri.parse().unwrap(), &map);
    assert_eq!(outcome.is_ok(), passes, "{uri} {headers:?} {outcome:?}");
}

#[test]
fn only_our_own_names_are_answered_to() {
    for host in [
        "localhost",
        "LOCALHOST:7411",
        "127.0.0.1:1",
        "[::1]:7411",
        "192.0.2.7:7411",
        "ringfence.example.org",
        "Ringfence.Example.org:443",
    ] {
        check("/mcp", &[("host", host)], true);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "localhost.",
        "user@localhost",
        "localhost@evil.example",
        "127.0.0.2",
        "0.0.0.0:7411",
        "localhost:",
        "localhost:99999",
        "[::1",
        "",
        "localhost/evil",
        "127.1",
        "2130706433",
    ] {
        check("/mcp", &[("host", host)], false);
    }
    check("/mcp", &[], false);
    check("/mcp", &[("host", "localhost"), ("host", "localhost")], false);
    check("http://evil.example/mcp", &[("host", "localhost")], false);
    check("http://localhost/mcp", &[("host", "localhost")], true);
}

#[test]
fn only_our_own_pages_are_let_in() {
    for origin in [
        "http://localhost:3000",
        "https://127.0.0.1",
        "http://[::1]:7411",
        "https://console.example.org",
        "https://console.example.org:443",
    ] {
        check("/", &[("host", "localhost"), ("origin", origin)], true);
    }
    for origin in [
        "null",
        "",
        "http://evil.example",
        "http://console.example.org",
        "https://console.example.org:8443",
        "https://ringfence.example.org",
        "http://localhost.evil.example",
        "file://localhost",
        "http://localhost@evil.example",
    ] {
        check("/", &[("host", "localhost"), ("origin", origin)], false);
    }
    let two = [
        ("host", "localhost"),
        ("origin", "http://localhost"),
        ("origin", "http://evil.example"),
    ];
    check("/", &two, false);
}

#[test]
fn names_that_are_none_are_refused_when_read() {
    let address = "0.0.0.0:1".parse().unwrap();
    let one = |text: &str| [text.to_owned()];
    for name in ["https://x.example", "x.example:443", "", "a b"] {
        assert!(Hosts::new(address, &one(name), &[]).is_err(), "{name}");
    }
    for origin in ["x.example", "https://x.example/path", "null"] {
        assert!(Hosts::new(address, &[], &one(origin)).is_err(), "{origin}");
    }
}
