//! Audit sinks behind the network: as the operator wrote them, and as they take records.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue};
use ringfence_journal::{Cause, Outlet, Undelivered};
use url::Url;

use crate::credential::{CredentialError, Environment, Written};
use crate::http;
use crate::servers::entry::safe;
use crate::vault::Vault;

mod logs;
mod webhook;

use logs::Logs;
use webhook::Webhook;

/// The longest that one delivery may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that an endpoint may answer.
const ANSWER: usize = 64 * 1024;

/// An audit sink as it is written.
#[derive(Clone)]
pub enum AuditSink {
    /// Signed batches of records for an endpoint of the operator's own.
    Webhook {
        /// The endpoint.
        url: Url,
        /// What deliveries are signed with.
        secret: Written,
        /// Whether an act waits until the endpoint has taken its record, and does not happen without.
        durable: bool,
    },
    /// Log records for a collector, by OTLP over HTTP.
    Otlp {
        /// The collector.
        url: Url,
        /// Headers of each request.
        headers: Vec<(String, Written)>,
    },
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Why a sink cannot be used; it never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuditSinkError {
    /// The address is not one.
    #[error("`{0}` is not an address; write it like `https://audit.example.org/ringfence`")]
    Address(String),
    /// A name or password in the address would be seen in logs.
    #[error("the address holds a name or password")]
    Userinfo,
    /// Records would travel in the clear.
    #[error("the address must be https (http only to a loopback address)")]
    Plain,
    /// A secret that is written in the file itself.
    #[error("`secret` must say where the secret is: `env:NAME`, `file:PATH` or `vault:NAME`")]
    Written,
    /// A value could not be had.
    #[error("{sink}: cannot read `{key}`")]
    Secret {
        /// The sink.
        sink: String,
        /// Which value.
        key: String,
        /// Why not.
        source: CredentialError,
    },
    /// A secret without anything in it signs nothing.
    #[error("{0}: the secret is empty")]
    Empty(String),
    /// A header that cannot be sent.
    #[error("{sink}: `{key}` cannot be a header")]
    Header {
        /// The sink.
        sink: String,
        /// Which.
        key: String,
    },
    /// There is no client to send with.
    #[error("cannot make an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AuditSink {
    /// An endpoint; the secret is a reference, never the secret itself.
    pub fn webhook(url: &str, secret: Written, durable: bool) -> Result<AuditSink, AuditSinkError> {
        if matches!(secret, Written::Text(_)) {
            return Err(AuditSinkError::Written);
        }
        let url = address(url)?;
        Ok(AuditSink::Webhook { url, secret, durable })
    }

    /// A collector, such as `http://127.0.0.1:4318`; an address that names `/v1/logs` is taken as it is.
    pub fn otlp(url: &str, headers: Vec<(String, Written)>) -> Result<AuditSink, AuditSinkError> {
        let url = logs::endpoint(address(url)?);
        Ok(AuditSink::Otlp { url, headers })
    }

    /// Whether an act waits until the sink has taken its record.
    pub fn is_durable(&self) -> bool {
        matches!(self, AuditSink::Webhook { durable: true, .. })
    }

    /// What logs and errors call it. A path or query may hold a secret, so only the origin is said.
    fn name(&self) -> String {
        let (kind, url) = match self {
            AuditSink::Webhook { url, .. } => ("webhook", url),
            AuditSink::Otlp { url, .. } => ("otlp", url),
        };
        format!("{kind} `{}`", url.origin().ascii_serialization())
    }

    /// The sink at work; its secrets are read now.
    pub fn open(&self, environment: &Environment, vault: &Vault) -> Result<Arc<dyn Outlet>, AuditSinkError> {
        let client = http::plain_client().map_err(|error| AuditSinkError::Client(Box::new(error)))?;
        let name = self.name();
        let read = |key: String, written: &Written| {
            let value = written.resolve(environment, vault);
            value.map_err(|source| AuditSinkError::Secret {
                sink: name.clone(),
                key,
                source,
            })
        };
        match self {
            AuditSink::Webhook { url, secret, .. } => {
                let secret = read("secret".to_owned(), secret)?;
                if secret.reveal().is_empty() {
                    return Err(AuditSinkError::Empty(name));
                }
                Ok(Arc::new(Webhook::new(name, client, url.clone(), &secret)))
            }
            AuditSink::Otlp { url, headers } => {
                let mut sendable = Vec::with_capacity(headers.len());
                for (key, written) in headers {
                    let value = read(format!("headers.{key}"), written)?;
                    let header = HeaderName::try_from(key.as_str()).ok();
                    let Some((header, mut value)) = header.zip(HeaderValue::from_str(value.reveal()).ok()) else {
                        let key = format!("headers.{key}");
                        return Err(AuditSinkError::Header { sink: name, key });
                    };
                    value.set_sensitive(true);
                    sendable.push((header, value));
                }
                Ok(Arc::new(Logs::new(name, client, url.clone(), sendable)))
            }
        }
    }
}

fn address(text: &str) -> Result<Url, AuditSinkError> {
    let url: Url = text.parse().map_err(|_| AuditSinkError::Address(text.to_owned()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(AuditSinkError::Address(text.to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AuditSinkError::Userinfo);
    }
    if !safe(&url) {
        return Err(AuditSinkError::Plain);
    }
    Ok(url)
}

/// Why an endpoint did not take a delivery.
#[derive(Debug, thiserror::Error)]
enum Declined {
    #[error("it was not reached, or did not answer")]
    Request(#[source] reqwest::Error),
    #[error("it answers with status {0}; redirects are not followed")]
    Redirect(u16),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it rejects {0} of them: {1}")]
    Rejected(usize, String),
}

/// Sends `count` records; what a successful answer says comes back.
async fn post(request: reqwest::RequestBuilder, count: usize) -> Result<Vec<u8>, Undelivered> {
    let response = request.timeout(PATIENCE).send().await;
    let response = response.map_err(|error| Undelivered::Later(cause(Declined::Request(error.without_url()))))?;
    match response.status().as_u16() {
        // Taken is taken, whatever else is said about it.
        200..=299 => Ok(http::body(response, ANSWER).await.unwrap_or_default()),
        code @ (408 | 425 | 429 | 500..=599) => Err(Undelivered::Later(cause(Declined::Status(code)))),
        code => {
            let source = if (300..400).contains(&code) {
                Declined::Redirect(code)
            } else {
                Declined::Status(code)
            };
            Err(Undelivered::Never {
                count,
                source: cause(source),
            })
        }
    }
}

fn cause(declined: Declined) -> Cause {
    Arc::new(declined)
}

#[cfg(test)]
mod tests;
