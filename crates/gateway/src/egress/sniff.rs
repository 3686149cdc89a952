//! Sniffs the protocol of a tunnel from its first bytes: TLS with a server name, HTTP/1, or something that is
//! refused.

use rustls::server::Acceptor;

use super::rewind::{ProxyStream, RewindStream};

/// The content type of a TLS handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;
/// Most bytes of a TLS `ClientHello`.
const MAX_HELLO_BYTES: usize = 20 * 1024;

/// The protocol in a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SniffedProtocol {
    /// TLS with a complete `ClientHello`.
    Tls(TlsHello),
    /// HTTP/1, as far as the first letters show.
    Http,
    /// Neither TLS nor HTTP/1.
    Unknown,
    /// The tunnel ended without any bytes.
    Silence,
}

/// The relevant parts of a TLS `ClientHello`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsHello {
    /// The server name, if it has one.
    pub(super) name: Option<String>,
    /// Whether `encrypted_client_hello` may hide another name. A dummy extension looks the same.
    pub(super) has_encrypted_hello: bool,
}

/// Reads until the protocol is clear; all bytes can be read again.
pub(super) async fn sniff<S: ProxyStream>(stream: &mut RewindStream<S>) -> std::io::Result<SniffedProtocol> {
    loop {
        if let Some(spoken) = classify(&stream.read) {
            return Ok(spoken);
        }
        if stream.read_more().await? == 0 {
            let nothing = stream.read.is_empty();
            return Ok(if nothing {
                SniffedProtocol::Silence
            } else {
                SniffedProtocol::Unknown
            });
        }
    }
}

/// Classifies the first bytes; `None` if there are too few.
pub(super) fn classify(bytes: &[u8]) -> Option<SniffedProtocol> {
    match bytes.first()? {
        &HANDSHAKE_RECORD => parse_hello(bytes),
        b'A'..=b'Z' => classify_http(bytes),
        _ => Some(SniffedProtocol::Unknown),
    }
}

/// Parses a `ClientHello`; one that rustls does not accept is unknown.
fn parse_hello(bytes: &[u8]) -> Option<SniffedProtocol> {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(0) | Err(_) => return Some(SniffedProtocol::Unknown),
            Ok(_) => {}
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                // A `ClientHello` that rustls reads and this parser does not is refused.
                let spoken = has_encrypted_hello(bytes).map_or(SniffedProtocol::Unknown, |hides| {
                    SniffedProtocol::Tls(TlsHello {
                        name,
                        has_encrypted_hello: hides,
                    })
                });
                return Some(spoken);
            }
            Ok(None) => {}
            Err(_) => return Some(SniffedProtocol::Unknown),
        }
    }
    (bytes.len() >= MAX_HELLO_BYTES).then_some(SniffedProtocol::Unknown)
}

/// Whether a complete `ClientHello` has the extension that can hide another name.
fn has_encrypted_hello(records: &[u8]) -> Option<bool> {
    const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
    let message = handshake_message(records)?;
    // Skips type and length of the message, version, and random bytes.
    let mut rest = message.get(4 + 2 + 32..)?;
    for prefix in [1, 2, 1] {
        // Skips session, cipher suites, and compression methods.
        rest = split_prefixed(rest, prefix)?.1;
    }
    if rest.is_empty() {
        return Some(false);
    }
    let (mut extensions, _) = split_prefixed(rest, 2)?;
    while !extensions.is_empty() {
        let (kind, after) = extensions.split_first_chunk::<2>()?;
        if u16::from_be_bytes(*kind) == ENCRYPTED_CLIENT_HELLO {
            return Some(true);
        }
        extensions = split_prefixed(after, 2)?.1;
    }
    Some(false)
}

/// Joins the first handshake message from the records that carry it.
fn handshake_message(mut records: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        if let Some([_, high, middle, low, ..]) = message.first_chunk::<4>() {
            let length = 4 + u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if message.len() >= length {
                message.truncate(length);
                return Some(message);
            }
        }
        let (head, rest) = records.split_first_chunk::<3>()?;
        if head.first() != Some(&HANDSHAKE_RECORD) {
            return None;
        }
        let (piece, after) = split_prefixed(rest, 2)?;
        message.extend_from_slice(piece);
        records = after;
    }
}

/// Splits off the part behind a length prefix of this many bytes, and returns it with the rest.
fn split_prefixed(bytes: &[u8], prefix: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(prefix)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

/// Recognises a method and a space; HTTP/2 without TLS (`PRI`) is refused.
fn classify_http(bytes: &[u8]) -> Option<SniffedProtocol> {
    let word = bytes.iter().take(24).position(|byte| *byte == b' ');
    match word {
        Some(end) if &bytes[..end] == b"PRI" => Some(SniffedProtocol::Unknown),
        Some(end)
            if bytes[..end]
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || *byte == b'-') =>
        {
            Some(SniffedProtocol::Http)
        }
        Some(_) => Some(SniffedProtocol::Unknown),
        None if bytes.len() >= 24 => Some(SniffedProtocol::Unknown),
        None => None,
    }
}

/// Returns a fatal TLS alert: `access_denied`, or `unrecognized_name` for a name other than the tunnel's.
pub(super) fn fatal_alert(code: &str) -> [u8; 7] {
    let description = if code == "net.sni" { 112 } else { 49 };
    [0x15, 3, 3, 0, 2, 2, description]
}

#[cfg(test)]
mod tests;
