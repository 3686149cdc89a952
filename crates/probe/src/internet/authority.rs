//! The certificate authorities: a trusted one, and one that no client trusts.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::crypto::ring::{default_provider, sign};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use super::world::STRANGER;

/// Two authorities: one that the clients trust, and one that no client trusts.
pub(super) struct ProbeAuthorities {
    pem: String,
    known: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    trusted: Issuer<'static, KeyPair>,
    unknown: Issuer<'static, KeyPair>,
}

impl fmt::Debug for ProbeAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl ProbeAuthorities {
    pub(super) fn new() -> Result<ProbeAuthorities, rcgen::Error> {
        let (trusted, pem) = new_root("an internet of our own")?;
        let (unknown, _) = new_root("nobody vouches for this one")?;
        Ok(ProbeAuthorities {
            pem,
            known: Mutex::new(HashMap::new()),
            trusted,
            unknown,
        })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// The TLS configuration of the server at `to`.
    pub(super) fn tls_config(self: &Arc<Self>, to: IpAddr) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ServerNameCertificates {
                authority: Arc::clone(self),
                to,
            }));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn issue_leaf(&self, name: &str, to: IpAddr) -> Option<Arc<CertifiedKey>> {
        let stranger = to == STRANGER;
        let key = format!("{name} {stranger}");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return Some(Arc::clone(found));
        }
        let issuer = if stranger { &self.unknown } else { &self.trusted };
        let made = Arc::new(issue_certificate(name, issuer)?);
        known.insert(key, Arc::clone(&made));
        Some(made)
    }
}

fn new_root(name: &str) -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

fn issue_certificate(name: &str, issuer: &Issuer<'_, KeyPair>) -> Option<CertifiedKey> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).ok()?;
    params.distinguished_name.push(DnType::CommonName, "server");
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().ok()?;
    let cert = params.signed_by(&key, issuer).ok()?;
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing = sign::any_supported_type(&der).ok()?;
    Some(CertifiedKey::new(vec![CertificateDer::from(cert)], signing))
}

/// A server accepts every name that a client sends as its own; without one it is known by its address.
#[derive(Debug)]
struct ServerNameCertificates {
    authority: Arc<ProbeAuthorities>,
    to: IpAddr,
}

impl ResolvesServerCert for ServerNameCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map_or_else(|| self.to.to_string(), str::to_owned);
        self.authority.issue_leaf(&name, self.to)
    }
}
