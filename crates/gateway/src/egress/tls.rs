//! TLS to hosts: verified against the root certificates with the real name, as if the program had done it.

use std::sync::{Arc, OnceLock};

use ringfence_policy::Host;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::refuse;
use crate::refusal::RequestRefusal;

/// Most time for a TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// The root certificates to verify hosts against.
#[derive(Debug, Clone)]
pub struct TrustRoots(Arc<RootSource>);

#[derive(Debug)]
struct RootSource {
    pem: Option<String>,
    made: OnceLock<Result<TlsConfigs, String>>,
}

#[derive(Debug)]
struct TlsConfigs {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

/// The application protocol to negotiate inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AlpnChoice {
    /// HTTP/2 if the host supports it, otherwise HTTP/1.
    Any,
    /// Only HTTP/1, which alone can be upgraded.
    Http1,
}

impl TrustRoots {
    /// Uses the roots of this machine, read on first use.
    pub fn system() -> TrustRoots {
        TrustRoots::from_source(None)
    }

    /// Uses exactly these certificates, in PEM.
    pub fn from_pem(pem: impl Into<String>) -> TrustRoots {
        TrustRoots::from_source(Some(pem.into()))
    }

    fn from_source(pem: Option<String>) -> TrustRoots {
        TrustRoots(Arc::new(RootSource {
            pem,
            made: OnceLock::new(),
        }))
    }

    fn configs(&self) -> Result<&TlsConfigs, &str> {
        let made = self.0.made.get_or_init(|| build_configs(self.0.pem.as_deref()));
        made.as_ref().map_err(String::as_str)
    }

    /// Performs the handshake with a host under its own name.
    pub(super) async fn connect(
        &self,
        host: &Host,
        inside: AlpnChoice,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, RequestRefusal> {
        let text = host.to_string();
        let clients = self.configs().map_err(|why| refuse::tls(&text, why))?;
        let config = match inside {
            AlpnChoice::Any => &clients.any,
            AlpnChoice::Http1 => &clients.http1,
        };
        let name = ServerName::try_from(text.clone()).map_err(|error| refuse::tls(&text, &error.to_string()))?;
        let shaken = TlsConnector::from(Arc::clone(config)).connect(name, stream);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(refuse::tls(&text, &error.to_string())),
            Err(_) => Err(refuse::unreachable(&text, "TLS took too long")),
        }
    }
}

fn build_configs(pem: Option<&str>) -> Result<TlsConfigs, String> {
    let certificates = match pem {
        Some(pem) => CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("the root certificates cannot be read: {error}"))?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    // Machines hold odd certificates; each unreadable one is one root less.
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        return Err("this machine has no root certificates (install `ca-certificates`)".to_owned());
    }
    let config = |inside: &[&[u8]]| {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(store.clone()).with_no_client_auth();
        config.alpn_protocols = inside.iter().map(|name| name.to_vec()).collect();
        Ok::<_, String>(Arc::new(config))
    };
    Ok(TlsConfigs {
        any: config(&[b"h2", b"http/1.1"])?,
        http1: config(&[b"http/1.1"])?,
    })
}
