//! The certificate authority of a session: only its sandbox trusts it, and its key is never written to disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{Timestamp, ToSpan};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use ringfence_policy::Host;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Most hosts whose certificates are cached.
const MAX_CACHED_CERTIFICATES: usize = 512;
/// Validity of certificates in days; a session ends long before.
const VALIDITY_DAYS: i64 = 30;

/// Why a certificate cannot be issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthorityError {
    #[error("a certificate cannot be made")]
    Make(#[from] rcgen::Error),
    #[error("a certificate cannot be used")]
    Use(#[from] rustls::Error),
    #[error("the clock is beyond what a certificate can say")]
    Clock(#[from] jiff::Error),
}

/// A certificate authority with the certificates that it issued.
pub(super) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// One key serves all hosts: the proxy answers for every one of them.
    key: KeyPair,
    issued: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl CertificateAuthority {
    pub(super) fn new() -> Result<CertificateAuthority, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = certificate_params("Ringfence session")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(CertificateAuthority {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            key: KeyPair::generate()?,
            issued: Mutex::default(),
        })
    }

    /// Returns the certificate that the sandbox trusts, as PEM.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the TLS configuration with which the proxy answers as this host.
    pub(super) fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let given = || self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = given().get(host) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.issue_certificate(host)?);
        let mut given = given();
        if given.len() >= MAX_CACHED_CERTIFICATES {
            given.clear();
        }
        given.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn issue_certificate(&self, host: &Host) -> Result<ServerConfig, AuthorityError> {
        let mut params = certificate_params("Ringfence")?;
        // The crate tells addresses from names itself.
        params.subject_alt_names = CertificateParams::new(vec![host.to_string()])?.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificate_params(name: &str) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    params.distinguished_name = distinguished;
    let day = |days: i64| -> Result<_, AuthorityError> {
        let day = Timestamp::now().checked_add((days * 24).hours())?;
        let day = day.to_zoned(jiff::tz::TimeZone::UTC);
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        Ok(date_time_ymd(i32::from(day.year()), part(day.month()), part(day.day())))
    };
    // A sandbox uses the host's clock, but one day of tolerance costs nothing.
    params.not_before = day(-1)?;
    params.not_after = day(VALIDITY_DAYS)?;
    Ok(params)
}

#[cfg(test)]
mod tests;
