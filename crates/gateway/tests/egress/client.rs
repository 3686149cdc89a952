//! A program's side of the proxy: plain bytes, and TLS in a tunnel.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Writes a request, then reads the response: its head, and its body if it has a length.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, text: &str) -> String {
    // A client that is refused at once may find the connection closed.
    let _ = stream.write_all(text.as_bytes()).await;
    answer(stream).await
}

pub(crate) async fn answer<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let read = async {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => read.push(byte),
                Err(_) => return String::from_utf8_lossy(&read).into_owned(),
            }
        }
        let head = String::from_utf8_lossy(&read).to_ascii_lowercase();
        let length = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await.unwrap();
        read.extend(body);
        String::from_utf8_lossy(&read).into_owned()
    };
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("an answer in time")
}

/// Returns the status of a response.
pub(crate) fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// Returns the refusal's code, which header and body must agree on.
#[track_caller]
pub(crate) fn code(answer: &str) -> String {
    let header = answer
        .split("x-ringfence-code: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next());
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(body["code"].as_str(), header, "{answer}");
    assert!(
        body["message"].as_str().is_some_and(|message| !message.is_empty()),
        "{answer}"
    );
    header.unwrap_or_default().to_owned()
}

/// Opens a tunnel; panics if it is not granted.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, place: &str) {
    let answered = ask(stream, &format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n")).await;
    assert_eq!(status(&answered), 200, "{answered}");
}

/// Returns a TLS configuration with these roots and protocols.
pub(crate) fn tls(pem: &str, alpn: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Performs the TLS handshake in a tunnel.
pub(crate) async fn shake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    config: ClientConfig,
    name: &str,
) -> std::io::Result<TlsStream<S>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream);
    tokio::time::timeout(Duration::from_secs(20), shaken)
        .await
        .expect("hands shaken in time")
}
