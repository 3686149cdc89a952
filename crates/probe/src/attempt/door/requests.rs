//! Requests that can be read in two ways, or that ask for something else the second time.

use std::io::{self, Write as _};

use super::client::{Client, answer, ask, ask2, tls};
use super::{Aims, Attempt, knock};

pub(super) fn attempts(id: u16, aims: &Aims) -> Vec<Attempt> {
    match id {
        114 => vec![
            raw(
                "another Host",
                aims,
                "GET http://allowed.example.com/echo/114 HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
            ),
            raw(
                "another Host, folded",
                aims,
                "GET http://allowed.example.com/echo/114 HTTP/1.1\r\nHost:\r\n evil.example.net\r\n\r\n",
            ),
            raw(
                "origin form",
                aims,
                "GET /echo/114 HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
            ),
        ],
        115 => smuggled(aims),
        116 => second(aims),
        122 => sockets(aims),
        123 => methods(aims),
        127 => tenants(aims),
        _ => Vec::new(),
    }
}

const FRONTED: [&str; 2] = ["\"host\":\"evil.example.net\"", "ringfence-canary"];

fn raw(part: &str, aims: &Aims, words: &str) -> Attempt {
    let words = words.to_owned();
    knock(part, aims, &FRONTED, move |client| client.say(words.as_bytes()))
}

const INNER: &str = "GET /echo/smuggled HTTP/1.1\r\nHost: evil.example.net\r\n\r\n";

/// Sends heads that can be read in two ways: one of them contains a second request.
fn smuggled(aims: &Aims) -> Vec<Attempt> {
    let inner = INNER.len();
    let heads = [
        ("two hosts", "Host: evil.example.net\r\n".to_owned(), String::new()),
        (
            "folded",
            "X-A: b\r\n c\r\nHost: evil.example.net\r\n".to_owned(),
            String::new(),
        ),
        (
            "length and chunks",
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", inner + 5),
            format!("0\r\n\r\n{INNER}"),
        ),
        (
            "chunks by another spelling",
            format!("Content-Length: {}\r\nTransfer-Encoding: xchunked\r\n", inner + 5),
            format!("0\r\n\r\n{INNER}"),
        ),
        (
            "a space before the colon",
            format!("Content-Length : {inner}\r\n"),
            INNER.to_owned(),
        ),
        (
            "two lengths",
            format!("Content-Length: 0\r\nContent-Length: {inner}\r\n"),
            INNER.to_owned(),
        ),
        (
            "a length with a sign",
            format!("Content-Length: +{inner}\r\n"),
            INNER.to_owned(),
        ),
        (
            "a bare line feed",
            format!(
                "X-A: b\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n",
                inner + 5
            ),
            format!("0\r\n\r\n{INNER}"),
        ),
    ];
    heads
        .into_iter()
        .map(|(part, head, body)| {
            knock(part, aims, &FRONTED, move |client| {
                let words = format!(
                    "POST http://loose.example.com/echo HTTP/1.1\r\nHost: loose.example.com\r\n{head}\r\n{body}"
                );
                twice(client, words.as_bytes())
            })
        })
        .collect()
}

/// Sends bytes and reads two answers, if there are two.
fn twice(client: &Client, words: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = client.dial()?;
    stream.write_all(words)?;
    let mut all = answer(&mut stream)?;
    stream.set_read_timeout(Some(std::time::Duration::from_millis(300)))?;
    all.extend(answer(&mut stream).unwrap_or_default());
    Ok(all)
}

/// Opens an allowed connection, and then asks for something else on it.
fn second(aims: &Aims) -> Vec<Attempt> {
    let both = |first: &str, then: &str| format!("{first}{then}");
    let first = "GET http://allowed.example.com/page HTTP/1.1\r\nHost: allowed.example.com\r\n\r\n";
    let plain = both(
        first,
        "GET http://evil.example.net/echo HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
    );
    let odd = both(
        first,
        "GET http://allowed.example.com/echo HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
    );
    let tunnel =
        "GET /page HTTP/1.1\r\nHost: allowed.example.com\r\n\r\nGET /echo HTTP/1.1\r\nHost: evil.example.net\r\n\r\n";
    vec![
        knock("another host", aims, &FRONTED, move |client| {
            twice(client, plain.as_bytes())
        }),
        knock("another Host", aims, &FRONTED, move |client| {
            twice(client, odd.as_bytes())
        }),
        knock("in a plain tunnel", aims, &FRONTED, move |client| {
            let mut stream = client.tunnel(b"allowed.example.com:80")?;
            stream.write_all(tunnel.as_bytes())?;
            let mut all = answer(&mut stream)?;
            all.extend(answer(&mut stream).unwrap_or_default());
            Ok(all)
        }),
        knock("where requests are read", aims, &FRONTED, |client| {
            let mut stream = tls(client.tunnel(b"api.example.com:443")?, "api.example.com", "http/1.1")?;
            let mut all = ask(&mut stream, "api.example.com", "/v1/page", "")?;
            all.extend(ask(&mut stream, "evil.example.net", "/echo", "").unwrap_or_default());
            Ok(all)
        }),
    ]
}

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Opens a WebSocket on a route that no rule names.
fn sockets(aims: &Aims) -> Vec<Attempt> {
    vec![
        knock("plain", aims, &["101 Switching"], |client| {
            let words = format!("GET http://api.example.com/ws HTTP/1.1\r\nHost: api.example.com\r\n{UPGRADE}\r\n");
            client.say(words.as_bytes())
        }),
        knock("with TLS", aims, &["101 Switching"], |client| {
            let mut stream = tls(client.tunnel(b"api.example.com:443")?, "api.example.com", "http/1.1")?;
            ask(&mut stream, "api.example.com", "/ws", UPGRADE)
        }),
    ]
}

/// Sends one request to the host whose methods and paths have rules.
fn ruled(part: &str, aims: &Aims, method: &'static str, path: &'static str, more: &'static str) -> [Attempt; 2] {
    let plain = knock(format!("{part}, plain"), aims, &[], move |client| {
        client.say(
            format!("{method} http://api.example.com{path} HTTP/1.1\r\nHost: api.example.com\r\n{more}\r\n").as_bytes(),
        )
    });
    let with_tls = knock(format!("{part}, TLS"), aims, &[], move |client| {
        let mut stream = tls(client.tunnel(b"api.example.com:443")?, "api.example.com", "http/1.1")?;
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: api.example.com\r\n{more}\r\n").as_bytes())?;
        answer(&mut stream)
    });
    [plain, with_tls]
}

/// Sends another method where only `GET` is allowed, or a header that asks for one.
fn methods(aims: &Aims) -> Vec<Attempt> {
    let tries = [
        ("POST", "POST", "/v1/123", "Content-Length: 0\r\n"),
        ("DELETE", "DELETE", "/v1/123", ""),
        ("lower case", "post", "/v1/123", "Content-Length: 0\r\n"),
        ("override", "GET", "/v1/123", "X-HTTP-Method-Override: DELETE\r\n"),
        ("another override", "GET", "/v1/123", "X-Method-Override: PUT\r\n"),
        ("a third override", "GET", "/v1/123", "X-HTTP-Method: PATCH\r\n"),
    ];
    let mut all: Vec<Attempt> = tries
        .into_iter()
        .flat_map(|(part, method, path, more)| ruled(part, aims, method, path, more))
        .collect();
    all.push(knock("POST by HTTP/2", aims, &[], |client| {
        let mut stream = tls(client.tunnel(b"api.example.com:443")?, "api.example.com", "h2")?;
        let headers = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "api.example.com"),
            (":path", "/v1/123"),
        ];
        ask2(&mut stream, &headers)
    }));
    all
}

/// Asks for another tenant of the same host.
fn tenants(aims: &Aims) -> Vec<Attempt> {
    const PATHS: [&str; 10] = [
        "/v2/127",
        "/v1/../v2/127",
        "/v1/%2e%2e/v2/127",
        "/v1/..%2fv2/127",
        "/v1/%2e%2e%2fv2/127",
        "//v2/127",
        "/v1/..;/v2/127",
        "/v1/\\../v2/127",
        "/V1/127",
        "/v1%2f127",
    ];
    PATHS
        .into_iter()
        .flat_map(|path| ruled(path, aims, "GET", path, ""))
        .collect()
}
