//! A naive proxy that judges nothing: it parses names leniently, dials every address, and records requests as they come.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};

const MAX_HEAD_BYTES: usize = 4 << 20;

/// What the proxy recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct ProxyLog(Arc<Mutex<String>>);

impl ProxyLog {
    fn write(&self, head: &[u8]) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&String::from_utf8_lossy(head));
    }

    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) fn serve_proxy(at: &str, key: &str) -> io::Result<ProxyLog> {
    let listener = TcpListener::bind(at)?;
    let log = ProxyLog::default();
    let (kept, key) = (log.clone(), key.to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (log, key) = (kept.clone(), key.clone());
            // A connection that fails is over.
            std::thread::spawn(move || drop(handle_connection(stream, &log, &key)));
        }
    });
    Ok(log)
}

fn handle_connection(mut stream: TcpStream, log: &ProxyLog, key: &str) -> io::Result<()> {
    let mut first = [0];
    stream.peek(&mut first)?;
    if first[0] == 5 {
        return handle_socks(stream, log);
    }
    let (head, rest) = read_head(&mut stream)?;
    log.write(&head);
    let text = String::from_utf8_lossy(&head).into_owned();
    // Whatever stands before the request counts as a preface.
    let text = text
        .strip_prefix("PROXY ")
        .and_then(|rest| rest.split_once("\r\n"))
        .map_or(text.clone(), |(_, rest)| rest.to_owned());
    let (line, headers) = text.split_once("\r\n").unwrap_or((&text, ""));
    let (method, target) = line.split_once(' ').unwrap_or((line, ""));
    let target = target.rsplit_once(" HTTP/").map_or(target, |(target, _)| target);
    if method == "CONNECT" {
        let to = dial_target(target, 443)?;
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        return relay_streams(stream, to, &rest);
    }
    let plain = target.strip_prefix("http://");
    let host = headers.lines().find_map(|line| line.strip_prefix("Host: "));
    let (authority, path) = match plain {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        // A request in the form for servers gets the answer of a server.
        None => (host.unwrap_or_default(), target.trim_start_matches('/')),
    };
    let to = dial_target(authority, 80)?;
    let own = if authority == "keyed.example.com" && !headers.contains("Authorization") {
        format!("Authorization: Bearer {key}\r\n")
    } else {
        String::new()
    };
    let words = format!("{method} /{path} HTTP/1.1\r\n{own}{headers}");
    let words = [words.as_bytes(), &rest].concat();
    relay_streams(stream, to, &words)
}

/// A head, and the bytes that came after it.
fn read_head(stream: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let from = bytes.len().saturating_sub(3);
        let count = stream.read(&mut piece)?;
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        let end = bytes
            .get(from..)
            .and_then(|tail| tail.windows(4).position(|four| four == b"\r\n\r\n"));
        if let Some(end) = end {
            let rest = bytes.split_off(from + end + 4);
            return Ok((bytes, rest));
        }
        if count == 0 || bytes.len() > MAX_HEAD_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn handle_socks(mut stream: TcpStream, log: &ProxyLog) -> io::Result<()> {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting)?;
    stream.read_exact(&mut vec![0; usize::from(greeting[1])])?;
    stream.write_all(&[5, 0])?;
    let mut request = [0; 4];
    stream.read_exact(&mut request)?;
    let length = match request[3] {
        1 => 4,
        4 => 16,
        _ => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length[0])
        }
    };
    let mut name = vec![0; length];
    stream.read_exact(&mut name)?;
    let mut port = [0; 2];
    stream.read_exact(&mut port)?;
    let port = u16::from_be_bytes(port);
    let four: Result<[u8; 4], _> = name.as_slice().try_into();
    let six: Result<[u8; 16], _> = name.as_slice().try_into();
    let to = match (request[3], four, six) {
        (1, Ok(four), _) => TcpStream::connect((IpAddr::from(four), port))?,
        (4, _, Ok(six)) => TcpStream::connect((IpAddr::from(six), port))?,
        _ => {
            log.write(&[&name[..], b"\n"].concat());
            dial_any_address(&guess_name(&String::from_utf8_lossy(&name)), port)?
        }
    };
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    relay_streams(stream, to, &[])
}

/// Dials `host:port`, parsed leniently.
fn dial_target(target: &str, usual: u16) -> io::Result<TcpStream> {
    let (name, port) = match target.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.trim().parse().unwrap_or(usual)),
        _ => (target, usual),
    };
    // A target without a port stands for port 80.
    let port = if target.contains(':') { port } else { 80 };
    dial_any_address(&guess_name(name), port)
}

/// What a client may have meant by a name.
fn guess_name(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let text = text.rsplit('@').next().unwrap_or(&text);
    let end = text
        .find(|c: char| c.is_whitespace() || "\0#?/\\".contains(c))
        .unwrap_or(text.len());
    let text = text.get(..end).unwrap_or(text);
    let plain: String = text.chars().filter_map(plain_char).collect();
    let plain = plain.trim_matches(['[', ']']);
    let plain = plain.split('%').next().unwrap_or(plain);
    if plain.contains(':') {
        return plain.to_owned();
    }
    let labels: Vec<&str> = plain.split('.').filter(|label| !label.is_empty()).collect();
    labels.join(".")
}

fn plain_char(c: char) -> Option<char> {
    match c {
        '\u{3002}' | '\u{ff61}' => Some('.'),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{ad}' => None,
        other => Some(other),
    }
}

/// Dials any address, the most private one first; a name that is no address is resolved as usual.
fn dial_any_address(name: &str, port: u16) -> io::Result<TcpStream> {
    let found = |name: &str| -> io::Result<Vec<SocketAddr>> { Ok((name, port).to_socket_addrs()?.collect()) };
    let addresses = found(name).or_else(|_| found(&format!("{name}.evil.example.net")))?;
    let private = |to: &&SocketAddr| matches!(to.ip(), IpAddr::V4(four) if four.is_private());
    let to = addresses
        .iter()
        .find(private)
        .or(addresses.first())
        .ok_or(io::ErrorKind::NotFound)?;
    TcpStream::connect(to)
}

fn relay_streams(one: TcpStream, mut other: TcpStream, first: &[u8]) -> io::Result<()> {
    other.write_all(first)?;
    let (mut from, mut to) = (one.try_clone()?, other.try_clone()?);
    std::thread::spawn(move || {
        // The copy ends when either side ends.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (other, one);
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Write)
}
