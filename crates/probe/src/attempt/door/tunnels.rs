//! Attempts inside an open tunnel, and attempts to open one as another program.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::client::{Client, ask, ask2, tls};
use super::{Aims, Attempt, Tried, attempt, knock};

/// More tunnels than a program needs at once.
const CROWD: usize = 300;
/// How many tunnels the probes' policy allows at once.
pub(crate) const AT_ONCE: usize = 20;

pub(super) fn attempts(id: u16, aims: &Aims) -> Vec<Attempt> {
    match id {
        111 => other_sni(aims),
        112 => fronted(aims),
        113 => no_sni(aims),
        117 => ports(aims, &[8080, 8443, 6379]),
        118 => ports(aims, &[22, 25]),
        119 => not_tls(aims),
        120 => relayed(aims),
        121 => others_word(aims),
        124 => vec![
            knock("a head of a megabyte", aims, &["allowed.example.com 93."], |client| {
                let more = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
                client.get("http://allowed.example.com/page", &more)
            }),
            knock("ten thousand headers", aims, &["allowed.example.com 93."], |client| {
                client.get("http://allowed.example.com/page", &"X-Many: 1\r\n".repeat(10_000))
            }),
            crowd(aims),
        ],
        _ => Vec::new(),
    }
}

/// Opens a tunnel to one name and uses TLS for another.
fn other_sni(aims: &Aims) -> Vec<Attempt> {
    let met = ["evil.example.net 93."];
    let ask_it = |stream| {
        ask(
            &mut tls(stream, "evil.example.net", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        )
    };
    vec![
        knock("CONNECT", aims, &met, move |client| {
            ask_it(client.tunnel(b"allowed.example.com:443")?)
        }),
        knock("SOCKS", aims, &met, move |client| {
            ask_it(client.socks(b"allowed.example.com", 443)?)
        }),
        knock("where requests are read", aims, &met, move |client| {
            ask_it(client.tunnel(b"api.example.com:443")?)
        }),
        knock("by HTTP/2", aims, &met, |client| {
            let stream = client.tunnel(b"allowed.example.com:443")?;
            ask2(
                &mut tls(stream, "evil.example.net", "h2")?,
                &two("evil.example.net", "/page"),
            )
        }),
    ]
}

fn two<'a>(authority: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", authority),
        (":path", path),
    ]
}

/// Uses the right name outside and another inside.
fn fronted(aims: &Aims) -> Vec<Attempt> {
    let met = [
        "evil.example.net 93.",
        "\"host\":\"evil.example.net\"",
        "evil.example.net:443 93.",
    ];
    let api = |client: &Client, protocol| tls(client.tunnel(b"api.example.com:443")?, "api.example.com", protocol);
    vec![
        knock("Host", aims, &met, move |client| {
            ask(&mut api(client, "http/1.1")?, "evil.example.net", "/page", "")
        }),
        knock("a whole URL", aims, &met, move |client| {
            ask(
                &mut api(client, "http/1.1")?,
                "api.example.com",
                "https://evil.example.net/page",
                "",
            )
        }),
        knock("a second Host", aims, &met, move |client| {
            let more = "Host: evil.example.net\r\n";
            ask(&mut api(client, "http/1.1")?, "evil.example.net", "/page", more)
        }),
        knock(":authority", aims, &met, move |client| {
            ask2(&mut api(client, "h2")?, &two("evil.example.net", "/page"))
        }),
        knock(":authority with a port", aims, &met, move |client| {
            ask2(&mut api(client, "h2")?, &two("evil.example.net:443", "/page"))
        }),
        knock("host beside no :authority", aims, &met, move |client| {
            let headers = [
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/page"),
                ("host", "evil.example.net"),
            ];
            ask2(&mut api(client, "h2")?, &headers)
        }),
        knock("in a plain tunnel", aims, &met, |client| {
            ask(
                &mut client.tunnel(b"allowed.example.com:80")?,
                "evil.example.net",
                "/page",
                "",
            )
        }),
        knock("in a plain tunnel by SOCKS", aims, &met, |client| {
            ask(
                &mut client.socks(b"allowed.example.com", 80)?,
                "evil.example.net",
                "/page",
                "",
            )
        }),
    ]
}

/// Uses TLS without a server name.
fn no_sni(aims: &Aims) -> Vec<Attempt> {
    let met = ["evil.example.net 93.", "allowed.example.com 93."];
    let ask_it = |stream| {
        ask(
            &mut tls(stream, "93.184.216.34", "http/1.1")?,
            "evil.example.net",
            "/page",
            "",
        )
    };
    vec![
        knock("CONNECT", aims, &met, move |client| {
            ask_it(client.tunnel(b"allowed.example.com:443")?)
        }),
        knock("SOCKS", aims, &met, move |client| {
            ask_it(client.socks(b"allowed.example.com", 443)?)
        }),
        knock("to the address itself", aims, &met, move |client| {
            ask_it(client.tunnel(b"93.184.216.34:443")?)
        }),
    ]
}

/// Uses the right name on ports that no rule names.
fn ports(aims: &Aims, ports: &'static [u16]) -> Vec<Attempt> {
    let mut all = Vec::new();
    for &port in ports {
        let page = format!("allowed.example.com:{port} 93.");
        let met = [aims.secret.as_str(), "allowed.example.com 93.", &page];
        all.push(knock(format!("CONNECT :{port}"), aims, &met, move |client| {
            let target = format!("allowed.example.com:{port}");
            let mut stream = client.tunnel(target.as_bytes())?;
            ask(&mut stream, "allowed.example.com", "/page", "")
        }));
        all.push(knock(format!("SOCKS :{port}"), aims, &met, move |client| {
            let mut stream = client.socks(b"allowed.example.com", port)?;
            ask(&mut stream, "allowed.example.com", "/page", "")
        }));
        all.push(knock(format!("GET :{port}"), aims, &met, move |client| {
            client.get(&format!("http://allowed.example.com:{port}/page"), "")
        }));
    }
    all
}

/// Sends something else where only TLS is allowed.
fn not_tls(aims: &Aims) -> Vec<Attempt> {
    let met = ["quiet.example.com 93."];
    vec![
        knock("HTTP", aims, &met, |client| {
            ask(
                &mut client.tunnel(b"quiet.example.com:443")?,
                "quiet.example.com",
                "/page",
                "",
            )
        }),
        knock("HTTP by SOCKS", aims, &met, |client| {
            ask(
                &mut client.socks(b"quiet.example.com", 443)?,
                "quiet.example.com",
                "/page",
                "",
            )
        }),
        knock("HTTP/2 without TLS", aims, &met, |client| {
            let headers = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "quiet.example.com"),
                (":path", "/page"),
            ];
            ask2(&mut client.tunnel(b"quiet.example.com:443")?, &headers)
        }),
    ]
}

/// Has another process relay all bytes, in some attempts after a header that claims another origin.
fn relayed(aims: &Aims) -> Vec<Attempt> {
    const FOR: [&str; 4] = [
        "",
        "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        "X-Forwarded-For: 127.0.0.1\r\n",
        "Forwarded: for=127.0.0.1;by=ringfence\r\n",
    ];
    let through = |word: &'static str| {
        let name = if word.is_empty() { "as it is" } else { word.trim() };
        knock(name, aims, &[&aims.secret], move |client| {
            let relay = TcpListener::bind("127.0.0.1:0")?;
            let mut own = TcpStream::connect(relay.local_addr()?)?;
            let (theirs, _) = relay.accept()?;
            pass_on(theirs, client.dial()?)?;
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
            super::client::answer(&mut own)
        })
    };
    FOR.into_iter().map(through).collect()
}

fn pass_on(one: TcpStream, other: TcpStream) -> io::Result<()> {
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
fn others_word(aims: &Aims) -> Vec<Attempt> {
    const WORDS: [&str; 4] = [
        "Proxy-Authorization: Basic b3RoZXI6b3RoZXI=\r\n",
        "Proxy-Authorization: Bearer other\r\n",
        "X-Ringfence-Session: other\r\n",
        "Authorization: Bearer other\r\n",
    ];
    let with = |word: &'static str| {
        knock(word.trim(), aims, &[&aims.secret], move |client| {
            client.get("http://others.example.net/", word)
        })
    };
    WORDS.into_iter().map(with).collect()
}

/// Opens many tunnels and keeps them all open.
fn crowd(aims: &Aims) -> Attempt {
    let client = Client::new(aims);
    attempt(format!("{CROWD} tunnels at once"), move || {
        let mut open = Vec::new();
        for _ in 0..CROWD {
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
        if through > AT_ONCE {
            Tried::Succeeded(format!("{through} tunnels were open at once"))
        } else {
            Tried::WithoutEffect(format!("{through} of {CROWD} at once"))
        }
    })
}
