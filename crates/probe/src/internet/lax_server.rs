//! A lax server, as they are written in an afternoon: it accepts every head, prefers the last header, and never hangs up.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::site::SiteRequest;
use super::web::WebServer;

const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Answers one request after another, as it understands them.
pub(super) async fn serve_connection(
    web: &Arc<WebServer>,
    mut stream: TcpStream,
    to: SocketAddr,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let Some((asked, used)) = parse_request(&bytes, to) else {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).await?;
            if count == 0 || bytes.len() > MAX_REQUEST_BYTES {
                return Ok(());
            }
            bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
            continue;
        };
        bytes.drain(..used);
        let body = serde_json::json!({ "host": asked.host, "path": asked.path }).to_string();
        web.ledger.add_request(asked);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
            .await?;
    }
}

/// A request and its length, once all of it has arrived.
fn parse_request(bytes: &[u8], to: SocketAddr) -> Option<(SiteRequest, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
    let rest = bytes.get(end..)?;
    // A bare line feed ends a line as well, and a folded line belongs to the one before.
    let text = text.replace("\r\n ", " ").replace("\r\n", "\n");
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next().unwrap_or("/").to_owned());
    let mut headers = Vec::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let last = |name: &str| {
        headers
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let chunked = last("transfer-encoding").is_some_and(|value| value.contains("chunked"));
    let length = headers.iter().find(|(known, _)| known == "content-length");
    let length = length.and_then(|(_, value)| value.parse::<usize>().ok());
    let used = if chunked {
        end + rest.windows(5).position(|five| five == b"0\r\n\r\n")? + 5
    } else {
        let length = length.unwrap_or(0);
        rest.get(..length)?;
        end + length
    };
    let host = last("host").unwrap_or_default();
    let asked = SiteRequest {
        to,
        scheme: "http",
        host,
        method,
        path,
        version: "HTTP/1.1".to_owned(),
        headers,
        body: Vec::new(),
    };
    Some((asked, used))
}
