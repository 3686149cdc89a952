//! The same servers over streamable HTTP, with a plain HTTP interface and an authorization server beside them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::authority::TestAuthorizationServer;
use super::{RawOutput, TestUpstream, UpstreamAction, UpstreamMode};

/// A request, with the parts that the servers use.
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

pub(super) struct BuiltResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl BuiltResponse {
    pub(super) fn new(status: u16) -> BuiltResponse {
        BuiltResponse {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(super) fn json(status: u16, value: &Value) -> BuiltResponse {
        BuiltResponse::new(status)
            .with("Content-Type", "application/json")
            .body(value.to_string())
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> BuiltResponse {
        self.headers.push((name, value.into()));
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> BuiltResponse {
        self.body = body.into();
        self
    }
}

struct UpstreamSite {
    upstream: Arc<TestUpstream>,
    authority: Option<TestAuthorizationServer>,
    origin: String,
}

/// Serves on a free port of this machine, printed as a URL on the first line, until the process is killed.
pub fn serve(mode: UpstreamMode, oauth: bool) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    serve_on(&listener, mode, oauth)
}

/// Serves at `/mcp` on the caller's port.
pub fn serve_on(listener: &TcpListener, mode: UpstreamMode, oauth: bool) -> Result<()> {
    let origin = format!("http://{}", listener.local_addr()?);
    let site = Arc::new(UpstreamSite {
        upstream: TestUpstream::new(mode),
        authority: oauth.then(|| TestAuthorizationServer::new(&origin)),
        origin,
    });
    for stream in listener.incoming() {
        let (stream, site) = (stream?, Arc::clone(&site));
        thread::spawn(move || site.serve_connection(stream));
    }
    Ok(())
}

impl UpstreamSite {
    fn serve_connection(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(request) = read_request(&mut reader)? {
            if request.path == "/flood" {
                writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\"")?;
                loop {
                    writer.write_all(&[b'a'; 4096])?;
                }
            }
            let response = self.respond(&request);
            let mut head = Vec::new();
            write!(
                head,
                "HTTP/1.1 {} x\r\nContent-Length: {}\r\n",
                response.status,
                response.body.len()
            )?;
            for (name, value) in &response.headers {
                write!(head, "{name}: {value}\r\n")?;
            }
            head.extend_from_slice(b"\r\n");
            writer.write_all(&head)?;
            writer.write_all(&response.body)?;
        }
        Ok(())
    }

    fn respond(&self, request: &ReceivedRequest) -> BuiltResponse {
        if let Some(response) = self.authority.as_ref().and_then(|authority| authority.respond(request)) {
            return response;
        }
        match request.path.as_str() {
            "/mcp" => self.mcp(request),
            "/elsewhere" => BuiltResponse::new(307).with("Location", "http://127.0.0.2:9/mcp"),
            "/moved" => BuiltResponse::new(307).with("Location", "/mcp"),
            "/openapi.json" => BuiltResponse::json(200, &self.document()),
            path => answer_interface(path, request),
        }
    }

    fn mcp(&self, request: &ReceivedRequest) -> BuiltResponse {
        if request.method == "DELETE" {
            return BuiltResponse::new(200);
        }
        if request.method != "POST" {
            return BuiltResponse::new(405);
        }
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
            return BuiltResponse::new(400);
        };
        let modern = self.upstream.mode.is_modern();
        let begins = message.get("method").and_then(Value::as_str) == Some("initialize");
        let known = request.headers.get("mcp-session-id").is_some_and(|id| id == "one");
        if !modern && !begins && !known {
            return BuiltResponse::json(
                400,
                &json!({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32000, "message": "no session"}}),
            );
        }
        let answer = match self.upstream.answer(&message) {
            UpstreamAction::Message(answer) | UpstreamAction::MessageAndChange(answer) => answer.to_string(),
            UpstreamAction::Nothing => return BuiltResponse::new(202),
            UpstreamAction::Raw(RawOutput::Line(line)) => line,
            UpstreamAction::Raw(_) => return BuiltResponse::new(500),
        };
        // The answer can contain the credentials that the server got.
        let given = request.headers.get("authorization").map(String::as_str);
        let answer = answer.replace("$AUTHORIZATION", given.unwrap_or("nothing"));
        let lists = message.get("method").and_then(Value::as_str) == Some("tools/list");
        // An answer may be an event stream or JSON; both are used.
        let response = if lists {
            BuiltResponse::new(200)
                .with("Content-Type", "text/event-stream")
                .body(format!("event: message\ndata: {answer}\n\n"))
        } else {
            BuiltResponse::new(200)
                .with("Content-Type", "application/json")
                .body(answer)
        };
        if begins && !modern {
            response.with("Mcp-Session-Id", "one")
        } else {
            response
        }
    }

    fn document(&self) -> Value {
        let mut document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
        document["servers"] = json!([{"url": format!("{}/api", self.origin)}]);
        document
    }
}

/// The plain interface that the document describes.
fn answer_interface(path: &str, request: &ReceivedRequest) -> BuiltResponse {
    let header = |name: &str| request.headers.get(name).cloned();
    match (request.method.as_str(), path) {
        ("GET", "/api/elsewhere") => BuiltResponse::new(302).with("Location", "http://127.0.0.2:9/"),
        ("GET", "/api/flood") => BuiltResponse::json(200, &json!("x".repeat(20 * 1024 * 1024))),
        ("GET", path) if path.starts_with("/api/items/") => BuiltResponse::json(
            200,
            &json!({"path": path, "query": request.query, "authorization": header("authorization"), "trace": header("x-trace")}),
        ),
        ("POST", "/api/items") => {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            BuiltResponse::json(201, &json!({"made": body}))
        }
        ("DELETE", path) if path.starts_with("/api/items/") => BuiltResponse::new(204),
        _ => BuiltResponse::json(404, &json!({"error": "no such thing"})),
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Result<Option<ReceivedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().context("a method")?.to_owned();
    let target = words.next().context("a target")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(ReceivedRequest {
        method,
        path,
        query,
        headers,
        body,
    }))
}
