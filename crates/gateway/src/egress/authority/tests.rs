use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;

fn verifies(root: &CertificateAuthority, given: &CertificateDer<'_>, name: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(root.pem().as_bytes()).unwrap())
        .unwrap();
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let verifier = builder.build().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier
        .verify_server_cert(given, &[], &name, &[], UnixTime::since_unix_epoch(now))
        .is_ok()
}

fn given(authority: &CertificateAuthority, host: &str) -> CertificateDer<'static> {
    let mut params = certificate_params("t").unwrap();
    params.subject_alt_names = CertificateParams::new(vec![host.to_owned()]).unwrap().subject_alt_names;
    params
        .signed_by(&authority.key, &authority.issuer)
        .unwrap()
        .der()
        .clone()
}

#[test]
fn a_certificate_is_good_for_its_host_and_its_session_only() {
    let (one, other) = (
        CertificateAuthority::new().unwrap(),
        CertificateAuthority::new().unwrap(),
    );
    for host in ["web.example.com", "93.184.216.34", "2606:2800::1"] {
        let certificate = given(&one, host);
        assert!(verifies(&one, &certificate, host), "{host}");
        assert!(!verifies(&other, &certificate, host), "{host}");
        assert!(!verifies(&one, &certificate, "other.example.com"), "{host}");
    }
    assert!(!one.pem().contains("PRIVATE"));
    assert!(!format!("{one:?}").contains("PRIVATE"));
}

#[test]
fn a_host_has_one_certificate_for_the_whole_session() {
    let authority = CertificateAuthority::new().unwrap();
    let host: Host = "web.example.com".parse().unwrap();
    let first = authority.server_config(&host).unwrap();
    assert!(Arc::ptr_eq(&first, &authority.server_config(&host).unwrap()));
    assert_eq!(first.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
}
