//! Clients that send exactly the given bytes and correct nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::EgressTargets;

/// How long a client waits for an answer; a name that does not resolve needs most of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
const MAX_ANSWER_BYTES: usize = 1 << 20;

pub(super) type RawTlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A client of the proxy that sends raw bytes.
#[derive(Debug, Clone)]
pub(super) struct RawClient {
    door: String,
}

impl RawClient {
    pub(super) fn new(aims: &EgressTargets) -> RawClient {
        RawClient {
            door: aims.door.clone(),
        }
    }

    pub(super) fn dial(&self) -> io::Result<TcpStream> {
        let door: SocketAddr = self.door.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let stream = TcpStream::connect_timeout(&door, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends `words` and reads one answer.
    pub(super) fn exchange(&self, words: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.dial()?;
        stream.write_all(words)?;
        read_answer(&mut stream)
    }

    /// Sends a `GET` of a whole URL.
    pub(super) fn get(&self, url: &str, more: &str) -> io::Result<Vec<u8>> {
        let host = url
            .split("//")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_default();
        self.exchange(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n").as_bytes())
    }

    /// Opens a tunnel to `target`, which is sent byte for byte.
    pub(super) fn open_tunnel(&self, target: &[u8]) -> io::Result<TcpStream> {
        let mut stream = self.dial()?;
        let words = [b"CONNECT ", target, b" HTTP/1.1\r\nHost: ", target, b"\r\n\r\n"].concat();
        stream.write_all(&words)?;
        let heard = read_answer(&mut stream)?;
        let text = String::from_utf8_lossy(&heard);
        if text.split(' ').nth(1) == Some("200") {
            return Ok(stream);
        }
        Err(io::Error::other(super::summarize_answer(&text)))
    }

    /// Opens a tunnel by SOCKS5 to a name, which is sent byte for byte.
    pub(super) fn open_socks(&self, name: &[u8], port: u16) -> io::Result<TcpStream> {
        let length = u8::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.open_socks_to(&[&[3, length], name].concat(), port)
    }

    /// Opens a tunnel by SOCKS5 to an encoded address of any type.
    pub(super) fn open_socks_to(&self, address: &[u8], port: u16) -> io::Result<TcpStream> {
        let mut stream = self.dial()?;
        stream.write_all(&[5, 1, 0])?;
        let mut method = [0; 2];
        stream.read_exact(&mut method)?;
        if method != [5, 0] {
            return Err(io::Error::other("no method"));
        }
        let request = [&[5, 1, 0], address, &port.to_be_bytes()].concat();
        stream.write_all(&request)?;
        let mut reply = [0; 4];
        stream.read_exact(&mut reply)?;
        let rest = match reply[3] {
            4 => 18,
            3 => {
                let mut length = [0];
                stream.read_exact(&mut length)?;
                usize::from(length[0]) + 2
            }
            _ => 6,
        };
        stream.read_exact(&mut vec![0; rest])?;
        match reply[1] {
            0 => Ok(stream),
            code => Err(io::Error::other(format!("SOCKS reply {code}"))),
        }
    }
}

/// Sends an HTTP/1.1 request over an open stream, and reads one answer.
pub(super) fn request_http1<S: Read + Write>(
    stream: &mut S,
    host: &str,
    path: &str,
    more: &str,
) -> io::Result<Vec<u8>> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").as_bytes())?;
    stream.flush()?;
    read_answer(stream)
}

/// Reads until the answer is complete or no more arrives.
pub(super) fn read_answer<S: Read>(stream: &mut S) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    while bytes.len() < MAX_ANSWER_BYTES && !is_complete(&bytes) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Whether an answer has a head and as much body as the head announces.
fn is_complete(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_ascii_lowercase();
    if !head.starts_with("http/") {
        return false;
    }
    let body = bytes.get(end + 4..).unwrap_or_default();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with(b"0\r\n\r\n");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    let success = head.starts_with("http/1.1 200") || head.starts_with("http/1.0 200");
    match length {
        Some(length) => body.len() >= length,
        // The answer to a tunnel or an upgrade has no body.
        None => success || head.starts_with("http/1.1 101"),
    }
}

/// Accepts every certificate: the attempt only tests whether a server answers.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Connects TLS with the name `sni`; an address in place of a name sends none. `protocol` is offered inside.
pub(super) fn connect_tls(stream: TcpStream, sni: &str, protocol: &str) -> io::Result<RawTlsStream> {
    let provider = Arc::new(default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from(sni.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    tls.flush()?;
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    Ok(tls)
}

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS_FRAME: u8 = 4;
const HEADERS_FRAME: u8 = 1;
const RST_STREAM_FRAME: u8 = 3;
const GOAWAY_FRAME: u8 = 7;

/// Sends one HTTP/2 request with any headers; returns the data frames.
pub(super) fn request_http2<S: Read + Write>(stream: &mut S, headers: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    const END_OF_ALL: u8 = 1 | 4;
    let mut fields = Vec::new();
    for (name, value) in headers {
        fields.push(0);
        for text in [name, value] {
            fields.push(u8::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)? & 0x7f);
            fields.extend(text.as_bytes());
        }
    }
    stream.write_all(HTTP2_PREFACE)?;
    stream.write_all(&encode_frame(SETTINGS_FRAME, 0, 0, &[]))?;
    stream.write_all(&encode_frame(HEADERS_FRAME, END_OF_ALL, 1, &fields))?;
    stream.flush()?;
    let mut data = Vec::new();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            break;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let (kind, flags) = (head[3], head[4]);
        match kind {
            0 => data.extend(body),
            SETTINGS_FRAME if flags & 1 == 0 => {
                stream.write_all(&encode_frame(SETTINGS_FRAME, 1, 0, &[]))?;
                stream.flush()?;
            }
            RST_STREAM_FRAME => return Err(io::Error::other("the stream was reset")),
            GOAWAY_FRAME => return Err(io::Error::other("the connection was ended")),
            _ => {}
        }
        if kind <= HEADERS_FRAME && flags & 1 != 0 {
            break;
        }
    }
    Ok(data)
}

fn encode_frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}
