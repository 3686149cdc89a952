//! Servers described by an `OpenAPI` document, 3.0 or 3.1: each operation is a tool.

mod body;
mod operations;
mod style;

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use ringfence_catalog::ServerListing;
use ringfence_disk::read_bounded;
use serde_json::{Map, Value, json};
use url::Url;

use crate::call_result::{CallResult, MAX_RESULT_BYTES, ResultContent};
use crate::credential::{Scrubber, SecretString};
use crate::error::{ServerError, UpstreamCallError};
use crate::error_text::error_chain;
use crate::http::{HttpTransportError, read_body, same_origin, same_origin_client};
use crate::json_tree;
use crate::servers::entry::is_safe_for_credentials;
use crate::servers::{OpenApiDocument, OpenApiInterface};
use body::{BodyEncoding, BodyInput};
use style::ParameterStyle;

/// Most bytes of a document.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Most time for one request; the caller's limit is shorter.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(10);

/// The part of a request that takes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentLocation {
    Path,
    Query,
    Header,
    Cookie,
    /// One property of the body.
    Field,
    /// The whole body as one argument.
    Body,
}

/// Where an argument goes, its name there, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    spot: ArgumentLocation,
    called: String,
    style: ParameterStyle,
}

/// One operation of the document, called as a tool.
#[derive(Debug)]
struct Operation {
    method: Method,
    path: String,
    /// Maps each argument to its place in the request.
    places: BTreeMap<String, Place>,
    /// How the request body is written.
    body: BodyEncoding,
}

/// Calls the operations of one interface.
pub(crate) struct OpenApiClient {
    server: String,
    scrubber: Scrubber,
    client: reqwest::Client,
    base: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    listing: ServerListing,
    operations: BTreeMap<String, Operation>,
}

impl OpenApiClient {
    /// Loads the document and its operations.
    pub(crate) async fn open(
        server: &str,
        interface: &OpenApiInterface,
        headers: &[(String, SecretString)],
        scrubber: Scrubber,
    ) -> Result<OpenApiClient, ServerError> {
        let wrong = |detail: String| ServerError::List {
            server: server.to_owned(),
            detail: scrubber.clean(&detail),
        };
        let client = same_origin_client().map_err(|error| wrong(error_chain(&error)))?;
        let mut sendable = Vec::new();
        for (name, secret) in headers {
            let value = HeaderValue::from_str(secret.reveal()).ok();
            let Some((name, mut value)) = HeaderName::try_from(name.as_str()).ok().zip(value) else {
                return Err(wrong(format!("`headers.{name}` cannot be a header")));
            };
            value.set_sensitive(true);
            sendable.push((name, value));
        }
        let (text, from) = match &interface.document {
            OpenApiDocument::File(path) => {
                let text = read_bounded(path, MAX_DOCUMENT_BYTES as u64);
                let text = text.map_err(|error| wrong(format!("cannot read `{}`: {error}", path.display())))?;
                (text, None)
            }
            OpenApiDocument::Content(content) => (content.bytes.to_vec(), None),
            OpenApiDocument::Url(url) => {
                let text = fetch_document(&client, url, &sendable)
                    .await
                    .map_err(|error| wrong(error_chain(&error)))?;
                (text, Some(url))
            }
        };
        let document = parse_document(&text).map_err(&wrong)?;
        let base =
            base_url(&document, from).ok_or_else(|| wrong("it names no `servers` URL that is https".to_owned()))?;
        // A document from elsewhere must not send the operator's headers to any host it likes.
        if let Some(from) = from.filter(|from| !same_origin(from, &base) && !sendable.is_empty()) {
            let detail = format!(
                "its `servers` URL is not on `{}`, and `headers` go with every request",
                from.authority()
            );
            return Err(wrong(detail));
        }
        let names: Vec<&HeaderName> = sendable.iter().map(|(name, _)| name).collect();
        let (mut listing, operations) = operations::read_operations(server, &document, &names)?;
        // The author of the document may know the secrets.
        scrubber.scrub_listing(&mut listing);
        Ok(OpenApiClient {
            server: server.to_owned(),
            scrubber,
            client,
            base,
            headers: sendable,
            listing,
            operations,
        })
    }

    pub(crate) fn listing(&self) -> ServerListing {
        self.listing.clone()
    }

    /// Sends the request of a call.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallResult, UpstreamCallError> {
        let refused = |code: i64, message: String| UpstreamCallError::Refused {
            server: self.server.clone(),
            tool: tool.to_owned(),
            code,
            message: self.scrubber.clean(&message),
        };
        let Some(operation) = self.operations.get(tool) else {
            return Err(refused(-32602, "no such operation".to_owned()));
        };
        let request = self
            .build_request(operation, arguments)
            .map_err(|detail| refused(-32602, detail))?;
        let lost = |error: &HttpTransportError| UpstreamCallError::Lost {
            server: self.server.clone(),
            tool: tool.to_owned(),
            detail: self.scrubber.clean(&error_chain(error)),
        };
        let sent = self.client.execute(request).await;
        let response = sent.map_err(|error| lost(&HttpTransportError::Request(error.without_url())))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(refused(
                status.as_u16().into(),
                "redirected to another origin".to_owned(),
            ));
        }
        let kind = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let is_json = kind.is_some_and(|kind| kind.contains("json"));
        let text = read_body(response, MAX_RESULT_BYTES)
            .await
            .map_err(|error| match error {
                HttpTransportError::TooMuch(limit) => UpstreamCallError::TooMuch {
                    server: self.server.clone(),
                    tool: tool.to_owned(),
                    what: "bytes",
                    limit,
                },
                error @ (HttpTransportError::Ended(_)
                | HttpTransportError::Tls(_)
                | HttpTransportError::TooManyValues
                | HttpTransportError::Request(_)
                | HttpTransportError::Message(_)
                | HttpTransportError::Login(_)) => lost(&error),
            })?;
        Ok(self.call_result(status, is_json, &text))
    }

    fn call_result(&self, status: StatusCode, is_json: bool, text: &[u8]) -> CallResult {
        let value = (is_json && !json_tree::is_too_large(text)).then(|| serde_json::from_slice::<Value>(text).ok());
        let value = value.flatten();
        if !status.is_success() {
            let said = self.scrubber.clean(&String::from_utf8_lossy(text));
            return CallResult {
                structured: None,
                content: vec![ResultContent::Text(format!("status {}: {said}", status.as_u16()))],
                is_error: true,
            };
        }
        match value {
            Some(value) => CallResult::structured(value).scrubbed(&self.scrubber),
            None if text.is_empty() => CallResult::structured(Value::Null),
            None => CallResult {
                structured: None,
                content: vec![ResultContent::Text(String::from_utf8_lossy(text).into_owned())],
                is_error: false,
            }
            .scrubbed(&self.scrubber),
        }
    }

    fn build_request(&self, operation: &Operation, arguments: Map<String, Value>) -> Result<reqwest::Request, String> {
        let mut path = operation.path.clone();
        let mut url = self.base.clone();
        let (mut query, mut headers) = (Vec::new(), self.headers.clone());
        let (mut fields, mut whole, mut cookies) = (Map::new(), None, Vec::new());
        for (name, value) in arguments {
            let Some(Place { spot, called, style }) = operation.places.get(&name) else {
                return Err(format!("no parameter `{name}`"));
            };
            match spot {
                ArgumentLocation::Path => {
                    let text = style.text(&value, encode_segment);
                    if text.is_empty() || text == "." || text == ".." {
                        return Err(format!("`{name}` cannot be a part of a path"));
                    }
                    path = path.replace(&format!("{{{called}}}"), &text);
                }
                ArgumentLocation::Query => query.extend(style.pairs(called, &value)),
                ArgumentLocation::Header => {
                    let pair = HeaderName::try_from(called.as_str()).ok();
                    let pair = pair.zip(HeaderValue::from_str(&style.text(&value, str::to_owned)).ok());
                    headers.push(pair.ok_or_else(|| format!("`{name}` cannot be a header"))?);
                }
                ArgumentLocation::Cookie => cookies.extend(style.pairs(called, &value)),
                ArgumentLocation::Field => _ = fields.insert(called.clone(), value),
                ArgumentLocation::Body => whole = Some(value),
            }
        }
        if path.contains('{') {
            return Err("a part of the path is missing".to_owned());
        }
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self
            .client
            .request(operation.method.clone(), url)
            .timeout(REQUEST_TIMEOUT);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if !cookies.is_empty() {
            let pair = |(name, value): &(String, String)| format!("{}={}", encode_segment(name), encode_segment(value));
            let cookies: Vec<String> = cookies.iter().map(pair).collect();
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        let given = match whole {
            Some(whole) => Some(BodyInput::Whole(whole)),
            None => (!fields.is_empty()).then_some(BodyInput::Fields(fields)),
        };
        if let Some(given) = given {
            let (kind, body) = operation.body.encode(given)?;
            request = request.header(header::CONTENT_TYPE, kind).body(body);
        }
        request.build().map_err(|error| error.without_url().to_string())
    }
}

/// Encodes one path segment, so that it cannot begin another.
fn encode_segment(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

async fn fetch_document(
    client: &reqwest::Client,
    url: &Url,
    headers: &[(HeaderName, HeaderValue)],
) -> Result<Vec<u8>, HttpTransportError> {
    let mut request = client.get(url.clone());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request
        .send()
        .await
        .map_err(|error| HttpTransportError::Request(error.without_url()))?;
    let response = response
        .error_for_status()
        .map_err(|error| HttpTransportError::Request(error.without_url()))?;
    read_body(response, MAX_DOCUMENT_BYTES).await
}

fn parse_document(text: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the document is no text".to_owned())?;
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(json) if text.trim_start().starts_with('{') => return Err(format!("the document is not JSON: {json}")),
        Err(_) => serde_saphyr::from_str(text).map_err(|error| format!("the document is not YAML: {error}"))?,
    };
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if version.starts_with("3.0") || version.starts_with("3.1") {
        Ok(document)
    } else {
        Err("the document is not OpenAPI 3.0 or 3.1".to_owned())
    }
}

/// Returns the base URL: the first server of the document, with its variables at their defaults.
fn base_url(document: &Value, from: Option<&Url>) -> Option<Url> {
    let nothing = json!({"url": "/"});
    let server = document.pointer("/servers/0").unwrap_or(&nothing);
    let mut text = server.get("url")?.as_str()?.to_owned();
    if let Some(Value::Object(variables)) = server.get("variables") {
        for (name, variable) in variables {
            let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
            text = text.replace(&format!("{{{name}}}"), default);
        }
    }
    let url = match from {
        Some(from) => from.join(&text).ok()?,
        None => Url::parse(&text).ok()?,
    };
    let plain = url.username().is_empty() && url.password().is_none();
    (is_safe_for_credentials(&url) && plain).then_some(url)
}

#[cfg(test)]
mod tests;
