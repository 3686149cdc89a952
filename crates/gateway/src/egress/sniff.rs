//! The first bytes in a tunnel: TLS with a name, a request of HTTP/1, or something that does not go out.

use rustls::server::Acceptor;

use super::rewind::{Rewind, Stream};

/// The first byte of a TLS record that shakes hands.
const HANDSHAKE: u8 = 0x16;
/// Bytes of a first message of TLS.
const MOST: usize = 20 * 1024;

/// What is spoken in a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spoken {
    /// TLS, for this name if it says one.
    Tls(Option<String>),
    /// A request of HTTP/1, as far as the first letters tell.
    Http,
    /// Neither.
    Unknown,
    /// Nothing at all.
    Silence,
}

/// Reads until it is clear what is spoken; everything read can be read again.
pub(super) async fn sniff<S: Stream>(stream: &mut Rewind<S>) -> std::io::Result<Spoken> {
    loop {
        if let Some(spoken) = spoken(&stream.read) {
            return Ok(spoken);
        }
        if stream.more().await? == 0 {
            let nothing = stream.read.is_empty();
            return Ok(if nothing { Spoken::Silence } else { Spoken::Unknown });
        }
    }
}

/// What these first bytes are, if they are enough to tell.
pub(super) fn spoken(bytes: &[u8]) -> Option<Spoken> {
    match bytes.first()? {
        &HANDSHAKE => hello(bytes),
        b'A'..=b'Z' => letters(bytes),
        _ => Some(Spoken::Unknown),
    }
}

/// The name in a first message of TLS; whatever rustls would not accept as one is unknown.
fn hello(bytes: &[u8]) -> Option<Spoken> {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(0) | Err(_) => return Some(Spoken::Unknown),
            Ok(_) => {}
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Some(Spoken::Tls(name));
            }
            Ok(None) => {}
            Err(_) => return Some(Spoken::Unknown),
        }
    }
    (bytes.len() >= MOST).then_some(Spoken::Unknown)
}

/// A method and a space; HTTP/2 without TLS (`PRI`) is none.
fn letters(bytes: &[u8]) -> Option<Spoken> {
    let word = bytes.iter().take(24).position(|byte| *byte == b' ');
    match word {
        Some(end) if &bytes[..end] == b"PRI" => Some(Spoken::Unknown),
        Some(end)
            if bytes[..end]
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || *byte == b'-') =>
        {
            Some(Spoken::Http)
        }
        Some(_) => Some(Spoken::Unknown),
        None if bytes.len() >= 24 => Some(Spoken::Unknown),
        None => None,
    }
}

/// A fatal alert of TLS: `access_denied`, or `unrecognized_name` for a name that is not the tunnel's.
pub(super) fn alert(code: &str) -> [u8; 7] {
    let description = if code == "net.sni" { 112 } else { 49 };
    [0x15, 3, 3, 0, 2, 2, description]
}

#[cfg(test)]
mod tests;
