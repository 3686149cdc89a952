//! Attempts inside an open tunnel, and attempts to open one as another program.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::client::{RawClient, connect_tls, request_http1, request_http2};
use super::{AttemptResult, EgressTargets, ProbeAttempt, client_attempt, new_attempt};

/// More tunnels than a program needs at once.
const CROWD_SIZE: usize = 300;
/// How many tunnels the probes' policy allows at once.
pub(crate) const MAX_OPEN_TUNNELS: usize = 20;

pub(super) fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    match id {
        111 => other_sni_attempts(aims),
        112 => fronting_attempts(aims),
        113 => missing_sni_attempts(aims),
        117 => port_attempts(aims, &[8080, 8443, 6379]),
        118 => port_attempts(aims, &[22, 25]),
        119 => non_tls_attempts(aims),
        120 => relay_attempts(aims),
        121 => impersonation_attempts(aims),
        124 => vec![
            client_attempt("a head of a megabyte", aims, &["allowed.example.com 93."], |client| {
                let more = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
                client.get("http://allowed.example.com/page", &more)
            }),
            client_attempt("ten thousand headers", aims, &["allowed.example.com 93."], |client| {
                client.get("http://allowed.example.com/page", &"X-Many: 1\r\n".repeat(10_000))
            }),
            crowd_attempt(aims),
        ],
        _ => Vec::new(),
    }
}

/// Opens a tunnel to one name and uses TLS for another.
fn other_sni_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let met = ["evil.example.net 93."];
    let ask_it = |stream| {
        request_http1(
            &mut connect_tls(stream, "evil.example.net", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        )
    };
    vec![
        client_attempt("CONNECT", aims, &met, move |client| {
            ask_it(client.open_tunnel(b"allowed.example.com:443")?)
        }),
        client_attempt("SOCKS", aims, &met, move |client| {
            ask_it(client.open_socks(b"allowed.example.com", 443)?)
        }),
        client_attempt("where requests are read", aims, &met, move |client| {
            ask_it(client.open_tunnel(b"api.example.com:443")?)
        }),
        client_attempt("by HTTP/2", aims, &met, |client| {
            let stream = client.open_tunnel(b"allowed.example.com:443")?;
            request_http2(
                &mut connect_tls(stream, "evil.example.net", "h2")?,
                &two_header_sets("evil.example.net", "/page"),
            )
        }),
    ]
}

fn two_header_sets<'a>(authority: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", path),
    ]
}

/// Uses the right name outside and another inside.
fn fronting_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let met = [
        "evil.example.net 93.",
        "\"host\":\"evil.example.net\"",
        "evil.example.net:443 93.",
    ];
    let api = |client: &RawClient, protocol| {
        connect_tls(client.open_tunnel(b"api.example.com:443")?, "api.example.com", protocol)
    };
    vec![
        client_attempt("Host", aims, &met, move |client| {
            request_http1(&mut api(client, "http/1.1")?, "evil.example.net", "/page", "")
        }),
        client_attempt("a whole URL", aims, &met, move |client| {
            request_http1(
                &mut api(client, "http/1.1")?,
                "api.example.com",
                "https://evil.example.net/page",
                "",
            )
        }),
        client_attempt("a second Host", aims, &met, move |client| {
            let more = "Host: evil.example.net\r\n";
            request_http1(&mut api(client, "http/1.1")?, "evil.example.net", "/page", more)
        }),
        client_attempt(":authority", aims, &met, move |client| {
            request_http2(&mut api(client, "h2")?, &two_header_sets("evil.example.net", "/page"))
        }),
        client_attempt(":authority with a port", aims, &met, move |client| {
            request_http2(
                &mut api(client, "h2")?,
                &two_header_sets("evil.example.net:443", "/page"),
            )
        }),
        client_attempt("host beside no :authority", aims, &met, move |client| {
            let headers = [
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/page"),
                ("host", "evil.example.net"),
            ];
            request_http2(&mut api(client, "h2")?, &headers)
        }),
        client_attempt("in a plain tunnel", aims, &met, |client| {
            request_http1(
                &mut client.open_tunnel(b"allowed.example.com:80")?,
                "evil.example.net",
                "/page",
                "",
            )
        }),
        client_attempt("in a plain tunnel by SOCKS", aims, &met, |client| {
            request_http1(
                &mut client.open_socks(b"allowed.example.com", 80)?,
                "evil.example.net",
                "/page",
                "",
            )
        }),
    ]
}

/// Uses TLS without a server name.
fn missing_sni_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let met = ["evil.example.net 93.", "allowed.example.com 93."];
    let ask_it = |stream| {
        request_http1(
            &mut connect_tls(stream, "93.184.216.34", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        )
    };
    vec![
        client_attempt("CONNECT", aims, &met, move |client| {
            ask_it(client.open_tunnel(b"allowed.example.com:443")?)
        }),
        client_attempt("SOCKS", aims, &met, move |client| {
            ask_it(client.open_socks(b"allowed.example.com", 443)?)
        }),
        client_attempt("to the address itself", aims, &met, move |client| {
            ask_it(client.open_tunnel(b"93.184.216.34:443")?)
        }),
    ]
}

/// Uses the right name on ports that no rule names.
fn port_attempts(aims: &EgressTargets, ports: &'static [u16]) -> Vec<ProbeAttempt> {
    let mut all = Vec::new();
    for &port in ports {
        let page = format!("allowed.example.com:{port} 93.");
        let met = [aims.secret.as_str(), "allowed.example.com 93.", &page];
        all.push(client_attempt(format!("CONNECT :{port}"), aims, &met, move |client| {
            let target = format!("allowed.example.com:{port}");
            let mut stream = client.open_tunnel(target.as_bytes())?;
            request_http1(&mut stream, "allowed.example.com", "/page", "")
        }));
        all.push(client_attempt(format!("SOCKS :{port}"), aims, &met, move |client| {
            let mut stream = client.open_socks(b"allowed.example.com", port)?;
            request_http1(&mut stream, "allowed.example.com", "/page", "")
        }));
        all.push(client_attempt(format!("GET :{port}"), aims, &met, move |client| {
            client.get(&format!("http://allowed.example.com:{port}/page"), "")
        }));
    }
    all
}

/// Sends something else where only TLS is allowed.
fn non_tls_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let met = ["quiet.example.com 93."];
    vec![
        client_attempt("HTTP", aims, &met, |client| {
            request_http1(
                &mut client.open_tunnel(b"quiet.example.com:443")?,
                "quiet.example.com",
                "/page",
                "",
            )
        }),
        client_attempt("HTTP by SOCKS", aims, &met, |client| {
            request_http1(
                &mut client.open_socks(b"quiet.example.com", 443)?,
                "quiet.example.com",
                "/page",
                "",
            )
        }),
        client_attempt("HTTP/2 without TLS", aims, &met, |client| {
            let headers = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "quiet.example.com"),
                (":path", "/page"),
            ];
            request_http2(&mut client.open_tunnel(b"quiet.example.com:443")?, &headers)
        }),
    ]
}

/// Has another process relay all bytes, in some attempts after a header that claims another origin.
fn relay_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    const FOR: [&str; 4] = [
        "",
        "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        "X-Forwarded-For: 127.0.0.1\r\n",
        "Forwarded: for=127.0.0.1;by=ringfence\r\n",
    ];
    let through = |word: &'static str| {
        let name = if word.is_empty() { "as it is" } else { word.trim() };
        client_attempt(name, aims, &[&aims.secret], move |client| {
            let relay = TcpListener::bind("127.0.0.1:0")?;
            let mut own = TcpStream::connect(relay.local_addr()?)?;
            let (theirs, _) = relay.accept()?;
            relay_stream(theirs, client.dial()?)?;
            own.set_read_timeout(Some(Duration::from_secs(5)))?;
            let (first, header) = if word.starts_with("PROXY") {
                (word, "")
            } else {
                ("", word)
            };
            let words = format!(
                "{first}GET http://evil.example.net/ HTTP/1.1\r\nHost: evil.example.net\r\n{header}Connection: close\r\n\r\n"
            );
            own.write_all(words.as_bytes())?;
            super::client::read_answer(&mut own)
        })
    };
    FOR.into_iter().map(through).collect()
}

fn relay_stream(one: TcpStream, other: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (one.try_clone()?, other.try_clone()?);
    std::thread::spawn(move || {
        // The copy ends when either side ends.
        let _ = io::copy(&mut from, &mut to);
    });
    let (mut from, mut to) = (other, one);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

/// Sends headers that claim to come from another session, which may do more.
fn impersonation_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    const WORDS: [&str; 4] = [
        "Proxy-Authorization: Basic b3RoZXI6b3RoZXI=\r\n",
        "Proxy-Authorization: Bearer other\r\n",
        "X-Ringfence-Session: other\r\n",
        "Authorization: Bearer other\r\n",
    ];
    let with = |word: &'static str| {
        client_attempt(word.trim(), aims, &[&aims.secret], move |client| {
            client.get("http://others.example.net/", word)
        })
    };
    WORDS.into_iter().map(with).collect()
}

/// Opens many tunnels and keeps them all open.
fn crowd_attempt(aims: &EgressTargets) -> ProbeAttempt {
    let client = RawClient::new(aims);
    new_attempt(format!("{CROWD_SIZE} tunnels at once"), move || {
        let mut open = Vec::new();
        for _ in 0..CROWD_SIZE {
            let Ok(mut stream) = client.dial() else { break };
            if stream
                .write_all(b"CONNECT allowed.example.com:443 HTTP/1.1\r\nHost: allowed.example.com:443\r\n\r\n")
                .is_err()
            {
                continue;
            }
            open.push(stream);
        }
        let until = Instant::now() + Duration::from_secs(4);
        let mut through = 0;
        for stream in &mut open {
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            let mut head = [0; 12];
            let read = stream
                .set_read_timeout(Some(left))
                .and_then(|()| stream.read_exact(&mut head));
            through += usize::from(read.is_ok() && head.ends_with(b" 200"));
        }
        if through > MAX_OPEN_TUNNELS {
            AttemptResult::Succeeded(format!("{through} tunnels were open at once"))
        } else {
            AttemptResult::WithoutEffect(format!("{through} of {CROWD_SIZE} at once"))
        }
    })
}
