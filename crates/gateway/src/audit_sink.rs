//! Audit sinks on the network: how the operator configures them, and how they deliver records.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderName, HeaderValue};
use ringfence_journal::{DeliveryFailure, ExternalSink, SharedCause};
use url::Url;

use crate::credential::{CredentialError, CredentialSource, EnvironmentLookup};
use crate::http;
use crate::servers::entry::is_safe_for_credentials;
use crate::vault::Vault;

mod logs;
mod webhook;

use logs::OtlpLogSink;
use webhook::WebhookSink;

/// Most time for one delivery.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an endpoint's answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// An audit sink as it is configured.
#[derive(Clone)]
pub enum AuditSink {
    /// Signed batches of records for an endpoint of the operator.
    Webhook {
        /// Address of the endpoint; https, or http to loopback.
        url: Url,
        /// The secret that deliveries are signed with.
        secret: CredentialSource,
        /// Whether an action waits until the endpoint has accepted its record, and fails otherwise.
        durable: bool,
    },
    /// Log records for a collector, by OTLP over HTTP.
    Otlp {
        /// Address of the collector, its path included.
        url: Url,
        /// Headers of each request.
        headers: Vec<(String, CredentialSource)>,
    },
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Why a sink cannot be used; the error never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuditSinkError {
    /// The address is not a valid URL.
    #[error("`{0}` is not an address; write it like `https://audit.example.org/ringfence`")]
    Address(String),
    /// The address contains a user name or password, which logs would show.
    #[error("the address holds a name or password")]
    Userinfo,
    /// The address is not https, so records would be sent in the clear.
    #[error("the address must be https (http only to a loopback address)")]
    Plain,
    /// The configuration contains the secret itself.
    #[error("`secret` must say where the secret is: `env:NAME`, `file:PATH` or `vault:NAME`")]
    Written,
    /// A value cannot be resolved.
    #[error("{sink}: cannot read `{key}`")]
    Secret {
        /// The name of the sink, without its path.
        sink: String,
        /// The key of the value in the configuration.
        key: String,
        /// Why the value cannot be resolved.
        source: CredentialError,
    },
    /// The secret is empty, and so signs nothing.
    #[error("{0}: the secret is empty")]
    Empty(String),
    /// A header cannot be sent.
    #[error("{sink}: `{key}` cannot be a header")]
    Header {
        /// The name of the sink, without its path.
        sink: String,
        /// The name of the header in the configuration.
        key: String,
    },
    /// The HTTP client cannot be created.
    #[error("cannot make an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AuditSink {
    /// Configures a webhook; `secret` is a reference, never the secret itself.
    pub fn webhook(url: &str, secret: CredentialSource, durable: bool) -> Result<AuditSink, AuditSinkError> {
        if matches!(secret, CredentialSource::Text(_)) {
            return Err(AuditSinkError::Written);
        }
        let url = parse_address(url)?;
        Ok(AuditSink::Webhook { url, secret, durable })
    }

    /// Configures a collector, such as `http://127.0.0.1:4318`; an address with `/v1/logs` is used as it is.
    pub fn otlp(url: &str, headers: Vec<(String, CredentialSource)>) -> Result<AuditSink, AuditSinkError> {
        let url = logs::endpoint(parse_address(url)?);
        Ok(AuditSink::Otlp { url, headers })
    }

    /// Whether an action waits until the sink has accepted its record.
    pub fn is_durable(&self) -> bool {
        matches!(self, AuditSink::Webhook { durable: true, .. })
    }

    /// Returns the name for logs and errors. A path or query may contain a secret, so only the origin is shown.
    fn name(&self) -> String {
        let (kind, url) = match self {
            AuditSink::Webhook { url, .. } => ("webhook", url),
            AuditSink::Otlp { url, .. } => ("otlp", url),
        };
        format!("{kind} `{}`", url.origin().ascii_serialization())
    }

    /// Starts the sink and resolves its secrets now.
    pub fn open(
        &self,
        environment: &EnvironmentLookup,
        vault: &Vault,
    ) -> Result<Arc<dyn ExternalSink>, AuditSinkError> {
        let client = http::no_redirect_client().map_err(|error| AuditSinkError::Client(Box::new(error)))?;
        let name = self.name();
        let read = |key: String, written: &CredentialSource| {
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
                Ok(Arc::new(WebhookSink::new(name, client, url.clone(), &secret)))
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
                Ok(Arc::new(OtlpLogSink::new(name, client, url.clone(), sendable)))
            }
        }
    }
}

fn parse_address(text: &str) -> Result<Url, AuditSinkError> {
    let url: Url = text.parse().map_err(|_| AuditSinkError::Address(text.to_owned()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(AuditSinkError::Address(text.to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AuditSinkError::Userinfo);
    }
    if !is_safe_for_credentials(&url) {
        return Err(AuditSinkError::Plain);
    }
    Ok(url)
}

/// Why an endpoint did not accept a delivery.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("it was not reached, or did not answer")]
    Request(#[source] reqwest::Error),
    #[error("it answers with status {0}; redirects are not followed")]
    Redirect(u16),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it rejects {0} of them: {1}")]
    Rejected(usize, String),
}

/// Sends `count` records and returns the body of a successful answer.
async fn post_records(request: reqwest::RequestBuilder, count: usize) -> Result<Vec<u8>, DeliveryFailure> {
    let response = request.timeout(DELIVERY_TIMEOUT).send().await;
    let response = response
        .map_err(|error| DeliveryFailure::Later(delivery_cause(DeliveryError::Request(error.without_url()))))?;
    match response.status().as_u16() {
        // The records are accepted, whatever the body says.
        200..=299 => Ok(http::read_body(response, MAX_ANSWER_BYTES).await.unwrap_or_default()),
        code @ (408 | 425 | 429 | 500..=599) => {
            Err(DeliveryFailure::Later(delivery_cause(DeliveryError::Status(code))))
        }
        code => {
            let source = if (300..400).contains(&code) {
                DeliveryError::Redirect(code)
            } else {
                DeliveryError::Status(code)
            };
            Err(DeliveryFailure::Never {
                count,
                source: delivery_cause(source),
            })
        }
    }
}

fn delivery_cause(declined: DeliveryError) -> SharedCause {
    Arc::new(declined)
}

#[cfg(test)]
mod tests;
