//! HTTP as bytes: a client that can misbehave as a test needs.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The longest time that a test waits for a response.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A response as the server sent it.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error code of a refusal, whose shape is checked too.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        assert!(body["message"].is_string() && body.get("hint").is_some(), "{self:?}");
        body["code"].as_str().unwrap().to_owned()
    }
}

/// The head of a request.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        text = text + name + ": " + value + "\r\n";
    }
    text + "\r\n"
}

/// Sends bytes, and reads until the server closes the connection. A broken pipe while sending is no error, because there may
/// still be a response.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    read_all(&mut stream).await
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, stream.read(&mut buffer))
            .await
            .unwrap()
        {
            Ok(0) | Err(_) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
        }
    }
}

pub(crate) fn reply(bytes: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Sends one request with a body, and reads one response.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let length = body.len().to_string();
    let mut all = vec![("Connection", "close")];
    if !body.is_empty() {
        all.extend([
            ("Content-Type", "application/json"),
            ("Content-Length", length.as_str()),
        ]);
    }
    all.extend(headers);
    let text = head(method, path, &all) + body;
    reply(&exchange(address, text.as_bytes()).await)
}

/// A stream of events, line by line.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    pub(crate) async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head("GET", path, headers).as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream);
        let mut status = String::new();
        lines.read_line(&mut status).await.unwrap();
        assert!(status.contains(" 200 "), "{status}");
        Events { lines }
    }

    /// The number and data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<(u64, Value)> {
        let (_, id, data) = self.named().await?;
        Some((if id.is_empty() { 0 } else { id.parse().unwrap() }, data))
    }

    /// The name, id and data of the next event; `None` at the end of the stream.
    pub(crate) async fn named(&mut self) -> Option<(String, String, Value)> {
        let (mut name, mut id) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(TEST_TIMEOUT, self.lines.read_line(&mut line))
                .await
                .unwrap();
            if read.unwrap_or(0) == 0 {
                return None;
            }
            // This is the last chunk: the stream has ended, although the connection may stay open.
            if line == "0\r\n" {
                return None;
            }
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.trim().to_owned();
            } else if let Some(given) = line.strip_prefix("event: ") {
                name = given.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, id, serde_json::from_str(data).unwrap()));
            }
        }
    }
}
