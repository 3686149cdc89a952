//! Servers described by an `OpenAPI` document, 3.0 or 3.1: each operation is a tool.

mod body;
mod read;
mod style;

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use ringfence_catalog::Listing;
use serde_json::{Map, Value, json};
use url::Url;

use crate::answer::{CallResult, Content, MOST};
use crate::credential::{Scrubber, Secret};
use crate::error::{CallError, ServerError};
use crate::http::{HttpError, body, client, same_origin};
use crate::keep::read_bounded;
use crate::servers::entry::safe;
use crate::servers::{Document, Interface};
use crate::talk::said;
use crate::tree;
use body::{Given, Kind};
use style::Style;

/// Most bytes of a document.
const DOCUMENT: usize = 16 * 1024 * 1024;
/// Most time for one request; the caller's limit is shorter.
const WITHIN: Duration = Duration::from_mins(10);

/// The part of a request that takes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spot {
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
    spot: Spot,
    called: String,
    style: Style,
}

/// One operation of the document, called as a tool.
#[derive(Debug)]
struct Operation {
    method: Method,
    path: String,
    /// Maps each argument to its place in the request.
    places: BTreeMap<String, Place>,
    /// How the request body is written.
    body: Kind,
}

/// Calls the operations of one interface.
pub(crate) struct Api {
    server: String,
    scrubber: Scrubber,
    client: reqwest::Client,
    base: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    listing: Listing,
    operations: BTreeMap<String, Operation>,
}

impl Api {
    /// Loads the document and its operations.
    pub(crate) async fn open(
        server: &str,
        interface: &Interface,
        headers: &[(String, Secret)],
        scrubber: Scrubber,
    ) -> Result<Api, ServerError> {
        let wrong = |detail: String| ServerError::List {
            server: server.to_owned(),
            detail: scrubber.clean(&detail),
        };
        let client = client().map_err(|error| wrong(said(&error)))?;
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
            Document::File(path) => {
                let text = read_bounded(path, DOCUMENT as u64);
                let text = text.map_err(|error| wrong(format!("cannot read `{}`: {error}", path.display())))?;
                (text, None)
            }
            Document::Url(url) => {
                let text = fetch(&client, url, &sendable)
                    .await
                    .map_err(|error| wrong(said(&error)))?;
                (text, Some(url))
            }
        };
        let document = parse(&text).map_err(&wrong)?;
        let base = base(&document, from).ok_or_else(|| wrong("it names no `servers` URL that is https".to_owned()))?;
        // A document from elsewhere must not send the operator's headers to any host it likes.
        if let Some(from) = from.filter(|from| !same_origin(from, &base) && !sendable.is_empty()) {
            let detail = format!(
                "its `servers` URL is not on `{}`, and `headers` go with every request",
                from.authority()
            );
            return Err(wrong(detail));
        }
        let names: Vec<&HeaderName> = sendable.iter().map(|(name, _)| name).collect();
        let (mut listing, operations) = read::read(server, &document, &names)?;
        // The author of the document may know the secrets.
        scrubber.hide_in_listing(&mut listing);
        Ok(Api {
            server: server.to_owned(),
            scrubber,
            client,
            base,
            headers: sendable,
            listing,
            operations,
        })
    }

    pub(crate) fn listing(&self) -> Listing {
        self.listing.clone()
    }

    /// Sends the request of a call.
    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallResult, CallError> {
        let refused = |code: i64, message: String| CallError::Refused {
            server: self.server.clone(),
            tool: tool.to_owned(),
            code,
            message: self.scrubber.clean(&message),
        };
        let Some(operation) = self.operations.get(tool) else {
            return Err(refused(-32602, "no such operation".to_owned()));
        };
        let request = self
            .request(operation, arguments)
            .map_err(|detail| refused(-32602, detail))?;
        let lost = |error: &HttpError| CallError::Lost {
            server: self.server.clone(),
            tool: tool.to_owned(),
            detail: self.scrubber.clean(&said(error)),
        };
        let sent = self.client.execute(request).await;
        let response = sent.map_err(|error| lost(&HttpError::Request(error.without_url())))?;
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
        let text = body(response, MOST).await.map_err(|error| match error {
            HttpError::TooMuch(limit) => CallError::TooMuch {
                server: self.server.clone(),
                tool: tool.to_owned(),
                what: "bytes",
                limit,
            },
            error @ (HttpError::Ended(_)
            | HttpError::Tls(_)
            | HttpError::TooManyValues
            | HttpError::Request(_)
            | HttpError::Message(_)
            | HttpError::Login(_)) => lost(&error),
        })?;
        Ok(self.result(status, is_json, &text))
    }

    fn result(&self, status: StatusCode, is_json: bool, text: &[u8]) -> CallResult {
        let value = (is_json && !tree::is_too_large(text)).then(|| serde_json::from_slice::<Value>(text).ok());
        let value = value.flatten();
        if !status.is_success() {
            let said = self.scrubber.clean(&String::from_utf8_lossy(text));
            return CallResult {
                structured: None,
                content: vec![Content::Text(format!("status {}: {said}", status.as_u16()))],
                is_error: true,
            };
        }
        match value {
            Some(value) => CallResult::structured(value).scrubbed(&self.scrubber),
            None if text.is_empty() => CallResult::structured(Value::Null),
            None => CallResult {
                structured: None,
                content: vec![Content::Text(String::from_utf8_lossy(text).into_owned())],
                is_error: false,
            }
            .scrubbed(&self.scrubber),
        }
    }

    fn request(&self, operation: &Operation, arguments: Map<String, Value>) -> Result<reqwest::Request, String> {
        let mut path = operation.path.clone();
        let mut url = self.base.clone();
        let (mut query, mut headers) = (Vec::new(), self.headers.clone());
        let (mut fields, mut whole, mut cookies) = (Map::new(), None, Vec::new());
        for (name, value) in arguments {
            let Some(Place { spot, called, style }) = operation.places.get(&name) else {
                return Err(format!("no parameter `{name}`"));
            };
            match spot {
                Spot::Path => {
                    let text = style.text(&value, encode);
                    if text.is_empty() || text == "." || text == ".." {
                        return Err(format!("`{name}` cannot be a part of a path"));
                    }
                    path = path.replace(&format!("{{{called}}}"), &text);
                }
                Spot::Query => query.extend(style.pairs(called, &value)),
                Spot::Header => {
                    let pair = HeaderName::try_from(called.as_str()).ok();
                    let pair = pair.zip(HeaderValue::from_str(&style.text(&value, str::to_owned)).ok());
                    headers.push(pair.ok_or_else(|| format!("`{name}` cannot be a header"))?);
                }
                Spot::Cookie => cookies.extend(style.pairs(called, &value)),
                Spot::Field => _ = fields.insert(called.clone(), value),
                Spot::Body => whole = Some(value),
            }
        }
        if path.contains('{') {
            return Err("a part of the path is missing".to_owned());
        }
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.request(operation.method.clone(), url).timeout(WITHIN);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if !cookies.is_empty() {
            let pair = |(name, value): &(String, String)| format!("{}={}", encode(name), encode(value));
            let cookies: Vec<String> = cookies.iter().map(pair).collect();
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        let given = match whole {
            Some(whole) => Some(Given::Whole(whole)),
            None => (!fields.is_empty()).then_some(Given::Fields(fields)),
        };
        if let Some(given) = given {
            let (kind, body) = operation.body.write(given)?;
            request = request.header(header::CONTENT_TYPE, kind).body(body);
        }
        request.build().map_err(|error| error.without_url().to_string())
    }
}

/// Encodes one path segment, so that it cannot begin another.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

async fn fetch(
    client: &reqwest::Client,
    url: &Url,
    headers: &[(HeaderName, HeaderValue)],
) -> Result<Vec<u8>, HttpError> {
    let mut request = client.get(url.clone());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let response = request
        .send()
        .await
        .map_err(|error| HttpError::Request(error.without_url()))?;
    let response = response
        .error_for_status()
        .map_err(|error| HttpError::Request(error.without_url()))?;
    body(response, DOCUMENT).await
}

fn parse(text: &[u8]) -> Result<Value, String> {
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
fn base(document: &Value, from: Option<&Url>) -> Option<Url> {
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
    (safe(&url) && plain).then_some(url)
}

#[cfg(test)]
mod tests;
