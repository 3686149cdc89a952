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
pub(super) struct Authority {
    pem: String,
    known: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    trusted: Issuer<'static, KeyPair>,
    unknown: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(super) fn new() -> Result<Authority, rcgen::Error> {
        let (trusted, pem) = root("an internet of our own")?;
        let (unknown, _) = root("nobody vouches for this one")?;
        Ok(Authority {
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
    pub(super) fn config(self: &Arc<Self>, to: IpAddr) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Names {
                authority: Arc::clone(self),
                to,
            }));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn leaf(&self, name: &str, to: IpAddr) -> Option<Arc<CertifiedKey>> {
        let stranger = to == STRANGER;
        let key = format!("{name} {stranger}");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&key) {
            return Some(Arc::clone(found));
        }
        let issuer = if stranger { &self.unknown } else { &self.trusted };
        let made = Arc::new(leaf(name, issuer)?);
        known.insert(key, Arc::clone(&made));
        Some(made)
    }
}

fn root(name: &str) -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

fn leaf(name: &str, issuer: &Issuer<'_, KeyPair>) -> Option<CertifiedKey> {
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
struct Names {
    authority: Arc<Authority>,
    to: IpAddr,
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map_or_else(|| self.to.to_string(), str::to_owned);
        self.authority.leaf(&name, self.to)
    }
}
