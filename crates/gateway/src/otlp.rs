//! Exports spans to a collector: OTLP over HTTP, as JSON.

use std::time::Duration;

use ringfence_journal::{SpanAttribute, SpanKind, TraceSpan};
use serde_json::{Value, json};
use url::Url;

use crate::http::{self, HttpTransportError};

/// The path for spans, below the base address of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// Most time for one request to a collector.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a collector's answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Exports spans to one collector.
#[derive(Debug, Clone)]
pub struct OtlpExporter {
    client: reqwest::Client,
    address: Url,
}

/// Why spans were not delivered.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// The address of the collector is invalid.
    #[error("`{0}` is not the address of a collector; write it like `http://127.0.0.1:4318`")]
    Address(String),
    /// The HTTP client cannot be created.
    #[error("cannot make an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The collector was not reached, or did not answer.
    #[error("the collector did not answer")]
    Send(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The collector reports that it is too busy.
    #[error("the collector answers with status {0}; it may take them later")]
    Busy(u16),
    /// The collector refuses the spans.
    #[error("the collector answers with status {0}")]
    Refused(u16),
}

impl OtlpError {
    /// Whether the same spans may be accepted if they are sent again.
    pub fn is_transient(&self) -> bool {
        matches!(self, OtlpError::Send(_) | OtlpError::Busy(_))
    }
}

impl OtlpExporter {
    /// Creates an exporter for a base address, such as `http://127.0.0.1:4318`; an address with `/v1/traces` is used
    /// as it is.
    pub fn new(endpoint: &str) -> Result<OtlpExporter, OtlpError> {
        let wrong = || OtlpError::Address(endpoint.to_owned());
        let mut address: Url = endpoint.parse().map_err(|_| wrong())?;
        if !matches!(address.scheme(), "http" | "https") || !address.has_host() {
            return Err(wrong());
        }
        let path = address.path().trim_end_matches('/').to_owned();
        if !path.ends_with(TRACES_PATH) {
            address.set_path(&format!("{path}{TRACES_PATH}"));
        }
        let client = http::same_origin_client().map_err(|error| OtlpError::Client(Box::new(error)))?;
        Ok(OtlpExporter { client, address })
    }

    /// Sends these spans in one request.
    pub async fn send(&self, spans: &[TraceSpan]) -> Result<(), OtlpError> {
        let request = self
            .client
            .post(self.address.clone())
            .header(::http::header::CONTENT_TYPE, "application/json")
            .body(trace_document(spans).to_string())
            .timeout(SEND_TIMEOUT);
        let failed = |error: HttpTransportError| OtlpError::Send(Box::new(error));
        let response = request
            .send()
            .await
            .map_err(|error| failed(HttpTransportError::Request(error)))?;
        let status = response.status();
        http::read_body(response, MAX_ANSWER_BYTES).await.map_err(failed)?;
        match status.as_u16() {
            200..=299 => Ok(()),
            code @ (429 | 502..=504) => Err(OtlpError::Busy(code)),
            code => Err(OtlpError::Refused(code)),
        }
    }
}

fn trace_document(spans: &[TraceSpan]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span_json).collect();
    json!({ "resourceSpans": [{
        "resource": resource(),
        "scopeSpans": [{ "scope": scope(), "spans": spans }],
    }] })
}

/// Returns the OTLP resource, which identifies the sender.
pub(crate) fn resource() -> Value {
    json!({ "attributes": [text("service.name", "ringfence"), text("service.version", env!("CARGO_PKG_VERSION"))] })
}

/// Returns the OTLP scope, which identifies this library.
pub(crate) fn scope() -> Value {
    json!({ "name": "ringfence", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns an attribute with a text value.
pub(crate) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn span_json(span: &TraceSpan) -> Value {
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let attribute = |(key, value): &(&str, SpanAttribute)| {
        let value = match value {
            SpanAttribute::Text(text) => json!({ "stringValue": text }),
            // 64-bit numbers are strings in the JSON of OTLP.
            SpanAttribute::Number(number) => json!({ "intValue": number.to_string() }),
        };
        json!({ "key": key, "value": value })
    };
    let status = match &span.error {
        Some(code) => json!({ "code": 2, "message": code }),
        None => json!({ "code": 1 }),
    };
    let mut object = json!({
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.began.as_nanosecond().to_string(),
        "endTimeUnixNano": span.ended.as_nanosecond().to_string(),
        "attributes": span.attributes.iter().map(attribute).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = &span.parent {
        object["parentSpanId"] = Value::String(hex(parent));
    }
    object
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests;
