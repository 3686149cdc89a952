//! Sends batches of records to an endpoint of the operator, signed so that the endpoint can verify the sender.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use ring::hmac;
use ringfence_journal::{DeliveryFuture, ExternalSink, Record};
use url::Url;

use super::post_records;
use crate::credential::SecretString;
use crate::otlp::hex;

/// The header with the delivery time in seconds since 1970.
const TIMESTAMP_HEADER: &str = "x-ringfence-timestamp";
/// The header with `v1=` and the HMAC-SHA256 of timestamp, a dot, and the body.
const SIGNATURE_HEADER: &str = "x-ringfence-signature";

pub(super) struct WebhookSink {
    name: String,
    client: reqwest::Client,
    url: Url,
    key: hmac::Key,
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl WebhookSink {
    pub(super) fn new(name: String, client: reqwest::Client, url: Url, secret: &SecretString) -> WebhookSink {
        WebhookSink {
            name,
            client,
            url,
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes()),
        }
    }

    fn signature(&self, timestamp: &str, body: &str) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [timestamp, ".", body] {
            context.update(part.as_bytes());
        }
        format!("v1={}", hex(context.sign().as_ref()))
    }
}

impl ExternalSink for WebhookSink {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, records: &'a [Arc<Record>]) -> DeliveryFuture<'a> {
        Box::pin(async move {
            let lines: Vec<String> = records.iter().map(|record| record.to_json_line()).collect();
            let body = format!(r#"{{"records":[{}]}}"#, lines.join(","));
            // Computed anew for each attempt: an endpoint may refuse old timestamps.
            let timestamp = Timestamp::now().as_second().to_string();
            let request = self
                .client
                .post(self.url.clone())
                .header(::http::header::CONTENT_TYPE, "application/json")
                .header(SIGNATURE_HEADER, self.signature(&timestamp, &body))
                .header(TIMESTAMP_HEADER, timestamp)
                .body(body);
            post_records(request, records.len()).await.map(drop)
        })
    }
}
