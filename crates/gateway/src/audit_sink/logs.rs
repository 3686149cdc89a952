//! Sends records as log records to a collector: OTLP over HTTP, as JSON.

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderName, HeaderValue};
use ringfence_journal::{DeliveryFailure, DeliveryFuture, ExternalSink, Record};
use serde_json::{Value, json};
use url::Url;

use super::{DeliveryError, delivery_cause, post_records};
use crate::otlp::{resource, scope, text};

/// The path for log records, below the base address of a collector.
const LOGS_PATH: &str = "/v1/logs";
/// Severity numbers of the protocol.
const INFO: u8 = 9;
const WARN: u8 = 13;
/// Most characters of a collector's reason that are kept.
const MAX_REASON_CHARS: usize = 200;

/// Returns the address for log records at a collector.
pub(super) fn endpoint(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(LOGS_PATH) {
        url.set_path(&format!("{path}{LOGS_PATH}"));
    }
    url
}

pub(super) struct OtlpLogSink {
    name: String,
    client: reqwest::Client,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for OtlpLogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl OtlpLogSink {
    pub(super) fn new(
        name: String,
        client: reqwest::Client,
        url: Url,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> OtlpLogSink {
        OtlpLogSink {
            name,
            client,
            url,
            headers,
        }
    }
}

impl ExternalSink for OtlpLogSink {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> DeliveryFuture<'a> {
        Box::pin(async move {
            let mut request = self
                .client
                .post(self.url.clone())
                .header(::http::header::CONTENT_TYPE, "application/json")
                .body(logs_document(records).to_string());
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            let answer = post_records(request, records.len()).await?;
            check_rejected(&answer, records.len())
        })
    }
}

/// Checks for partial success: a collector may accept some records and reject others.
fn check_rejected(answer: &[u8], sent: usize) -> Result<(), DeliveryFailure> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    // 64-bit numbers are strings in the JSON of OTLP; some collectors write numbers all the same.
    let count = &partial["rejectedLogRecords"];
    let count = count
        .as_str()
        .and_then(|text| text.parse().ok())
        .or_else(|| count.as_u64());
    let count = usize::try_from(count.unwrap_or(0)).unwrap_or(sent).min(sent);
    if count == 0 {
        return Ok(());
    }
    let reason = partial["errorMessage"].as_str().unwrap_or("no reason");
    let reason = reason
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_REASON_CHARS)
        .collect();
    Err(DeliveryFailure::Never {
        count,
        source: delivery_cause(DeliveryError::Rejected(count, reason)),
    })
}

fn logs_document(records: &[Arc<Record>]) -> Value {
    let records: Vec<Value> = records.iter().map(|record| log_record(record)).collect();
    json!({ "resourceLogs": [{
        "resource": resource(),
        "scopeLogs": [{ "scope": scope(), "logRecords": records }],
    }] })
}

/// The body is the record's own line, so that its hash can be checked anywhere.
fn log_record(record: &Record) -> Value {
    let mut attributes = vec![
        text("ringfence.session", &record.session.to_string()),
        json!({ "key": "ringfence.seq", "value": { "intValue": record.seq.to_string() } }),
        text("ringfence.hash", &record.hash.to_string()),
    ];
    let mut log = json!({ "body": { "stringValue": record.to_json_line() } });
    // An unreadable event was written by another version: its line is still sent.
    if let Ok(event) = record.event() {
        let (number, word) = if event.kind.is_warning() {
            (WARN, "WARN")
        } else {
            (INFO, "INFO")
        };
        let time = event.at.as_nanosecond().to_string();
        attributes.push(text("ringfence.kind", event.kind.name()));
        if let Some(execution) = event.execution {
            attributes.push(text("ringfence.execution", &execution.to_string()));
        }
        log["timeUnixNano"] = Value::String(time.clone());
        log["observedTimeUnixNano"] = Value::String(time);
        log["severityNumber"] = number.into();
        log["severityText"] = word.into();
        log["eventName"] = format!("ringfence.{}", event.kind.name()).into();
    }
    log["attributes"] = attributes.into();
    log
}
