//! Sends records as log records to a collector: OTLP over HTTP, as JSON.

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderName, HeaderValue};
use ringfence_journal::{Delivery, Outlet, Record, Undelivered};
use serde_json::{Value, json};
use url::Url;

use super::{Declined, cause, post};
use crate::otlp::{resource, scope, text};

/// The path for log records, below the base address of a collector.
const LOGS: &str = "/v1/logs";
/// Severity numbers of the protocol.
const INFO: u8 = 9;
const WARN: u8 = 13;
/// Most characters of a collector's reason that are kept.
const REASON: usize = 200;

/// Returns the address for log records at a collector.
pub(super) fn endpoint(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(LOGS) {
        url.set_path(&format!("{path}{LOGS}"));
    }
    url
}

pub(super) struct Logs {
    name: String,
    client: reqwest::Client,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Logs {
    pub(super) fn new(
        name: String,
        client: reqwest::Client,
        url: Url,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Logs {
        Logs {
            name,
            client,
            url,
            headers,
        }
    }
}

impl Outlet for Logs {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> Delivery<'a> {
        Box::pin(async move {
            let mut request = self
                .client
                .post(self.url.clone())
                .header(::http::header::CONTENT_TYPE, "application/json")
                .body(document(records).to_string());
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            let answer = post(request, records.len()).await?;
            rejected(&answer, records.len())
        })
    }
}

/// Checks for partial success: a collector may accept some records and reject others.
fn rejected(answer: &[u8], sent: usize) -> Result<(), Undelivered> {
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
    let reason = reason.chars().filter(|c| !c.is_control()).take(REASON).collect();
    Err(Undelivered::Never {
        count,
        source: cause(Declined::Rejected(count, reason)),
    })
}

fn document(records: &[Arc<Record>]) -> Value {
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
    let mut log = json!({ "body": { "stringValue": record.line() } });
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
