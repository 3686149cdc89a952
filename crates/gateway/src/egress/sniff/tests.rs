use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

fn tls(name: Option<&str>, hides: bool) -> SniffedProtocol {
    let name = name.map(str::to_owned);
    SniffedProtocol::Tls(TlsHello {
        name,
        has_encrypted_hello: hides,
    })
}

/// Returns the `ClientHello` with one more extension.
fn with_extension(hello: &[u8], kind: u16, body: &[u8]) -> Vec<u8> {
    let mut extension = kind.to_be_bytes().to_vec();
    extension.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    extension.extend(body);
    let mut bytes = hello.to_vec();
    // Skips the lengths of record and message, version, random bytes, session, suites, and compressions.
    let mut place = 5 + 4 + 2 + 32;
    place += 1 + usize::from(bytes[place]);
    place += 2 + usize::from(u16::from_be_bytes([bytes[place], bytes[place + 1]]));
    place += 1 + usize::from(bytes[place]);
    let grown = extension.len();
    for at in [3, 7, place] {
        let length = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])) + grown;
        bytes[at..at + 2].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    }
    bytes.splice(place + 2..place + 2, extension);
    bytes
}

fn hello(name: &str, sni: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = sni;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_name_is_told_when_the_whole_message_is_there() {
    let bytes = hello("web.example.com", true);
    for cut in 1..bytes.len() {
        assert_eq!(classify(&bytes[..cut]), None, "{cut} of {}", bytes.len());
    }
    let named = Some(tls(Some("web.example.com"), false));
    assert_eq!(classify(&bytes), named);
    let more = [bytes.as_slice(), b"and more"].concat();
    assert_eq!(classify(&more), named);
    assert_eq!(classify(&hello("web.example.com", false)), Some(tls(None, false)));
    assert_eq!(classify(&hello("93.184.216.34", true)), Some(tls(None, false)));
}

#[test]
fn a_message_in_several_records_is_one_message() {
    let bytes = hello("web.example.com", true);
    let (head, body) = bytes.split_at(5);
    let mut records = Vec::new();
    for part in body.chunks(40) {
        records.extend(&head[..3]);
        records.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
        records.extend(part);
    }
    assert_eq!(classify(&records), Some(tls(Some("web.example.com"), false)));
}

#[test]
fn a_message_that_may_hide_another_is_told() {
    let plain = hello("web.example.com", true);
    // Type (outer), cipher suite, key number, key share, and payload.
    let outer = [&[0, 0, 1, 0, 1, 7, 0, 32][..], &[9; 32], &[0, 32], &[5; 32]].concat();
    for (kind, hides) in [(0xfe0d, true), (0xfe0c, false), (0x0a0a, false)] {
        let bytes = with_extension(&plain, kind, &outer);
        assert_eq!(classify(&bytes), Some(tls(Some("web.example.com"), hides)), "{kind:x}");
        for cut in 1..bytes.len() {
            assert_eq!(classify(&bytes[..cut]), None, "{cut} of {}", bytes.len());
        }
    }
}

#[test]
fn letters_are_a_method_or_nothing() {
    for (bytes, wanted) in [
        (b"".as_slice(), None),
        (b"GE", None),
        (b"GET ", Some(SniffedProtocol::Http)),
        (b"VERSION-CONTROL / H", Some(SniffedProtocol::Http)),
        (b"PRI * HTTP/2.0", Some(SniffedProtocol::Unknown)),
        (b"SSH-2.0-x\r\n ", Some(SniffedProtocol::Unknown)),
        (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", Some(SniffedProtocol::Unknown)),
        (b"get / ", Some(SniffedProtocol::Unknown)),
        (b"\x16\x03\x01\x00\x05hello", Some(SniffedProtocol::Unknown)),
        (b"\x80\x2e\x01\x03\x01", Some(SniffedProtocol::Unknown)),
    ] {
        assert_eq!(classify(bytes), wanted, "{bytes:?}");
    }
}
