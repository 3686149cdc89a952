//! The web API of the document: it answers in the documented schemas and records every request.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Headers of a request that are looked at.
const HEADERS: [&str; 7] = [
    "authorization",
    "x-request-tag",
    "idempotency-key",
    "if-match",
    "x-labels",
    "content-type",
    "cookie",
];

/// A server on a port of its own, as long as the test runs.
pub(super) struct Interface {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Interface {
    pub(super) fn start() -> Interface {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let interface = Interface {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let seen = Arc::clone(&interface.seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                thread::spawn(move || answer(stream, &seen));
            }
        });
        interface
    }

    /// Every request until now.
    pub(super) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, seen: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut headers, mut length) = (serde_json::Map::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            if name == "content-length" {
                length = value.parse().ok()?;
            }
            if HEADERS.contains(&name.as_str()) {
                headers.insert(name, json!(value));
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = match serde_json::from_slice(&body) {
            Ok(body) => body,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => json!(String::from_utf8_lossy(&body)),
        };
        let request = json!({ "method": method, "target": target, "headers": headers, "body": body });
        seen.lock().unwrap().push(request);
        let (status, text) = reply(&method, &target, &body);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        reader.get_mut().write_all((head + &text).as_bytes()).ok()?;
    }
}

fn reply(method: &str, target: &str, body: &Value) -> (&'static str, String) {
    let path = target.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let row = |id: &str| {
        json!({ "id": id, "status": "open", "name": body["name"].as_str().unwrap_or("one"), "note": null, "tags": [], "parent": null,
            "price": { "amount": 7, "currency": "EUR" }, "created": "2026-11-01T00:00:00Z" })
    };
    let value = match (method, parts.as_slice()) {
        ("DELETE", _) => return ("204 No Content", String::new()),
        ("GET", [_, "missing"]) => return ("404 Not Found", json!({ "title": "no such thing" }).to_string()),
        ("GET", [_, _, "history", _]) => json!([{ "at": "2026-11-01", "what": "made" }]),
        ("GET", [_]) => json!({ "items": [row("1"), row("2")], "next": null }),
        (_, [_]) => row("3"),
        (_, [_, id, ..]) => row(id),
        _ => json!({}),
    };
    ("200 OK", value.to_string())
}
