//! A client over HTTP: one connection, one request at a time, no more of HTTP than the answers need.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{ClientEra, result_of};

const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes that the body of an answer may have.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// An answer of the HTTP server.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status code of the answer.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body of the answer, with chunks joined.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// Finds a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The messages in the body: one as JSON, or those of an event stream.
    pub fn messages(&self) -> Result<Vec<Value>> {
        let text = std::str::from_utf8(&self.body)?;
        if self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let data = data.map(str::trim).filter(|data| !data.is_empty());
            return data.map(|data| Ok(serde_json::from_str(data)?)).collect();
        }
        Ok(vec![
            serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?,
        ])
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct HttpClient {
    stream: BufReader<TcpStream>,
    address: String,
    token: Option<String>,
    era: ClientEra,
    session: Option<String>,
    asked: u64,
}

impl HttpClient {
    /// Connects to `127.0.0.1:PORT` and sends the first request.
    pub fn start(address: &str, token: Option<&str>, era: ClientEra) -> Result<HttpClient> {
        let mut client = HttpClient::connect(address, token, era)?;
        let (method, params) = era.first_request();
        client.request(method, params)?;
        if era == ClientEra::Legacy {
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
            let reply = client.post(&ready, &[])?;
            ensure!(reply.status == 202, "the end of the handshake got {}", reply.status);
        }
        Ok(client)
    }

    /// Connects and sends nothing yet.
    pub fn connect(address: &str, token: Option<&str>, era: ClientEra) -> Result<HttpClient> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(HttpClient {
            stream: BufReader::new(stream),
            address: address.to_owned(),
            token: token.map(str::to_owned),
            era,
            session: None,
            asked: 0,
        })
    }

    /// Posts a body to `/mcp` with the protocol's headers and these.
    pub fn post(&mut self, body: &str, more: &[(&str, &str)]) -> Result<HttpReply> {
        let mut headers = vec![
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", self.era.revision().to_owned()),
        ];
        headers.extend(self.session.clone().map(|session| ("Mcp-Session-Id", session)));
        headers.extend(
            self.token
                .as_ref()
                .map(|token| ("Authorization", format!("Bearer {token}"))),
        );
        headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self.send("POST", "/mcp", &headers, body.as_bytes())
    }

    /// Sends any request and reads its answer.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> Result<HttpReply> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        write!(head, "Content-Length: {}\r\n\r\n", body.len())?;
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        self.read_reply()
    }

    /// The stream itself, for input that is not a valid request.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Reads one answer from the connection.
    pub fn read_reply(&mut self) -> Result<HttpReply> {
        let mut line = String::new();
        ensure!(
            self.stream.read_line(&mut line)? > 0,
            "the server closed the connection"
        );
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("no status line: {line}"))?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let mut reply = HttpReply {
            status,
            headers,
            body: Vec::new(),
        };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = self.read_chunks()?;
        } else {
            let length = reply.header("content-length").unwrap_or("0").parse()?;
            ensure!(length <= MAX_BODY_BYTES, "an answer of {length} bytes");
            reply.body = vec![0; length];
            self.stream.read_exact(&mut reply.body)?;
        }
        Ok(reply)
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).with_context(|| format!("no chunk: {line}"))?;
            ensure!(body.len() + length <= MAX_BODY_BYTES, "an answer without end");
            let start = body.len();
            body.resize(start + length + 2, 0);
            self.stream.read_exact(body.get_mut(start..).unwrap_or_default())?;
            body.truncate(start + length);
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// Sends a request and returns its result.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let name = ["name", "uri"].iter().find_map(|key| params.get(key)?.as_str());
        let name = name.map(str::to_owned);
        let request = self.era.request(id, method, params).to_string();
        let mut headers = Vec::new();
        if self.era == ClientEra::Modern {
            headers.push(("Mcp-Method", method));
            headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        }
        let reply = self.post(&request, &headers)?;
        if let Some(session) = reply.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let messages = reply.messages().with_context(|| format!("status {}", reply.status))?;
        let mut own = messages
            .into_iter()
            .filter(|message| message.get("id").and_then(Value::as_u64) == Some(id));
        match own.next() {
            Some(answer) => result_of(answer),
            None => bail!("status {} and no answer", reply.status),
        }
    }

    /// Calls a tool and fails where the tool does.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let called = self.request("tools/call", json!({"name": tool, "arguments": arguments}))?;
        ensure!(called.get("isError") != Some(&json!(true)), "`{tool}` failed: {called}");
        Ok(called)
    }
}
