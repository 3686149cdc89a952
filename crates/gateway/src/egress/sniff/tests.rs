use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

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
        assert_eq!(spoken(&bytes[..cut]), None, "{cut} of {}", bytes.len());
    }
    let named = Some(Spoken::Tls(Some("web.example.com".to_owned())));
    assert_eq!(spoken(&bytes), named);
    let more = [bytes.as_slice(), b"and more"].concat();
    assert_eq!(spoken(&more), named);
    assert_eq!(spoken(&hello("web.example.com", false)), Some(Spoken::Tls(None)));
    assert_eq!(spoken(&hello("93.184.216.34", true)), Some(Spoken::Tls(None)));
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
    assert_eq!(spoken(&records), Some(Spoken::Tls(Some("web.example.com".to_owned()))));
}

#[test]
fn letters_are_a_method_or_nothing() {
    for (bytes, wanted) in [
        (b"".as_slice(), None),
        (b"GE", None),
        (b"GET ", Some(Spoken::Http)),
        (b"VERSION-CONTROL / H", Some(Spoken::Http)),
        (b"PRI * HTTP/2.0", Some(Spoken::Unknown)),
        (b"SSH-2.0-x\r\n ", Some(Spoken::Unknown)),
        (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", Some(Spoken::Unknown)),
        (b"get / ", Some(Spoken::Unknown)),
        (b"\x16\x03\x01\x00\x05hello", Some(Spoken::Unknown)),
        (b"\x80\x2e\x01\x03\x01", Some(Spoken::Unknown)),
    ] {
        assert_eq!(spoken(bytes), wanted, "{bytes:?}");
    }
}
