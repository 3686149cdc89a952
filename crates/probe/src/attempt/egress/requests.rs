//! Requests that can be read in two ways, or that ask for something else the second time.

use std::io::{self, Write as _};

use super::client::{RawClient, connect_tls, read_answer, request_http1, request_http2};
use super::{EgressTargets, ProbeAttempt, client_attempt};

pub(super) fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    match id {
        114 => vec![
            raw_attempt(
                "another Host",
                aims,
                "GET http://allowed.example.com/echo/114 HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
            ),
            raw_attempt(
                "another Host, folded",
                aims,
                "GET http://allowed.example.com/echo/114 HTTP/1.1\r\nHost:\r\n evil.example.net\r\n\r\n",
            ),
            raw_attempt(
                "origin form",
                aims,
                "GET /echo/114 HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
            ),
        ],
        115 => smuggling_attempts(aims),
        116 => second_request_attempts(aims),
        122 => websocket_attempts(aims),
        123 => method_attempts(aims),
        127 => tenant_attempts(aims),
        _ => Vec::new(),
    }
}

const FRONTED_HOSTS: [&str; 2] = ["\"host\":\"evil.example.net\"", "ringfence-canary"];

fn raw_attempt(part: &str, aims: &EgressTargets, words: &str) -> ProbeAttempt {
    let words = words.to_owned();
    client_attempt(part, aims, &FRONTED_HOSTS, move |client| {
        client.exchange(words.as_bytes())
    })
}

const SMUGGLED_REQUEST: &str = "GET /echo/smuggled HTTP/1.1\r\nHost: evil.example.net\r\n\r\n";

/// Sends heads that can be read in two ways: one of them contains a second request.
fn smuggling_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let inner = SMUGGLED_REQUEST.len();
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
            format!("0\r\n\r\n{SMUGGLED_REQUEST}"),
        ),
        (
            "chunks by another spelling",
            format!("Content-Length: {}\r\nTransfer-Encoding: xchunked\r\n", inner + 5),
            format!("0\r\n\r\n{SMUGGLED_REQUEST}"),
        ),
        (
            "a space before the colon",
            format!("Content-Length : {inner}\r\n"),
            SMUGGLED_REQUEST.to_owned(),
        ),
        (
            "two lengths",
            format!("Content-Length: 0\r\nContent-Length: {inner}\r\n"),
            SMUGGLED_REQUEST.to_owned(),
        ),
        (
            "a length with a sign",
            format!("Content-Length: +{inner}\r\n"),
            SMUGGLED_REQUEST.to_owned(),
        ),
        (
            "a bare line feed",
            format!(
                "X-A: b\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n",
                inner + 5
            ),
            format!("0\r\n\r\n{SMUGGLED_REQUEST}"),
        ),
    ];
    heads
        .into_iter()
        .map(|(part, head, body)| {
            client_attempt(part, aims, &FRONTED_HOSTS, move |client| {
                let words = format!(
                    "POST http://loose.example.com/echo HTTP/1.1\r\nHost: loose.example.com\r\n{head}\r\n{body}"
                );
                exchange_twice(client, words.as_bytes())
            })
        })
        .collect()
}

/// Sends bytes and reads two answers, if there are two.
fn exchange_twice(client: &RawClient, words: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = client.dial()?;
    stream.write_all(words)?;
    let mut all = read_answer(&mut stream)?;
    stream.set_read_timeout(Some(std::time::Duration::from_millis(300)))?;
    all.extend(read_answer(&mut stream).unwrap_or_default());
    Ok(all)
}

/// Opens an allowed connection, and then asks for something else on it.
fn second_request_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
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
        client_attempt("another host", aims, &FRONTED_HOSTS, move |client| {
            exchange_twice(client, plain.as_bytes())
        }),
        client_attempt("another Host", aims, &FRONTED_HOSTS, move |client| {
            exchange_twice(client, odd.as_bytes())
        }),
        client_attempt("in a plain tunnel", aims, &FRONTED_HOSTS, move |client| {
            let mut stream = client.open_tunnel(b"allowed.example.com:80")?;
            stream.write_all(tunnel.as_bytes())?;
            let mut all = read_answer(&mut stream)?;
            all.extend(read_answer(&mut stream).unwrap_or_default());
            Ok(all)
        }),
        client_attempt("where requests are read", aims, &FRONTED_HOSTS, |client| {
            let mut stream = connect_tls(
                client.open_tunnel(b"api.example.com:443")?,
                "api.example.com",
                "http/1.1",
            )?;
            let mut all = request_http1(&mut stream, "api.example.com", "/v1/page", "")?;
            all.extend(request_http1(&mut stream, "evil.example.net", "/echo", "").unwrap_or_default());
            Ok(all)
        }),
    ]
}

const UPGRADE_HEADERS: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Opens a WebSocket on a route that no rule names.
fn websocket_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    vec![
        client_attempt("plain", aims, &["101 Switching"], |client| {
            let words =
                format!("GET http://api.example.com/ws HTTP/1.1\r\nHost: api.example.com\r\n{UPGRADE_HEADERS}\r\n");
            client.exchange(words.as_bytes())
        }),
        client_attempt("with TLS", aims, &["101 Switching"], |client| {
            let mut stream = connect_tls(
                client.open_tunnel(b"api.example.com:443")?,
                "api.example.com",
                "http/1.1",
            )?;
            request_http1(&mut stream, "api.example.com", "/ws", UPGRADE_HEADERS)
        }),
    ]
}

/// Sends one request to the host whose methods and paths have rules.
fn ruled_request_attempts(
    part: &str,
    aims: &EgressTargets,
    method: &'static str,
    path: &'static str,
    more: &'static str,
) -> [ProbeAttempt; 2] {
    let plain = client_attempt(format!("{part}, plain"), aims, &[], move |client| {
        client.exchange(
            format!("{method} http://api.example.com{path} HTTP/1.1\r\nHost: api.example.com\r\n{more}\r\n").as_bytes(),
        )
    });
    let with_tls = client_attempt(format!("{part}, TLS"), aims, &[], move |client| {
        let mut stream = connect_tls(
            client.open_tunnel(b"api.example.com:443")?,
            "api.example.com",
            "http/1.1",
        )?;
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: api.example.com\r\n{more}\r\n").as_bytes())?;
        read_answer(&mut stream)
    });
    [plain, with_tls]
}

/// Sends another method where only `GET` is allowed, or a header that asks for one.
fn method_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let tries = [
        ("POST", "POST", "/v1/123", "Content-Length: 0\r\n"),
        ("DELETE", "DELETE", "/v1/123", ""),
        ("lower case", "post", "/v1/123", "Content-Length: 0\r\n"),
        ("override", "GET", "/v1/123", "X-HTTP-Method-Override: DELETE\r\n"),
        ("another override", "GET", "/v1/123", "X-Method-Override: PUT\r\n"),
        ("a third override", "GET", "/v1/123", "X-HTTP-Method: PATCH\r\n"),
    ];
    let mut all: Vec<ProbeAttempt> = tries
        .into_iter()
        .flat_map(|(part, method, path, more)| ruled_request_attempts(part, aims, method, path, more))
        .collect();
    all.push(client_attempt("POST by HTTP/2", aims, &[], |client| {
        let mut stream = connect_tls(client.open_tunnel(b"api.example.com:443")?, "api.example.com", "h2")?;
        let headers = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "api.example.com"),
            (":path", "/v1/123"),
        ];
        request_http2(&mut stream, &headers)
    }));
    all
}

/// Asks for another tenant of the same host.
fn tenant_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
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
        .flat_map(|path| ruled_request_attempts(path, aims, "GET", path, ""))
        .collect()
}
