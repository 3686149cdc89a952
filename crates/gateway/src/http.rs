//! Streamable HTTP to a server that may be hostile: https only, redirects to the same origin only, and every body
//! bounded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::{HeaderName, HeaderValue, StatusCode, header};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::sync::watch;
use url::Url;

use crate::call_result::TOO_DEEP;
use crate::connection::conversation::ConversationState;
use crate::connection::line_transport::{MAX_LINE_BYTES, answered_request_id, error_answer};
use crate::credential::SecretString;
use crate::json_tree::{self, TreeSize};
use crate::oauth::{Challenge, OAuthError, OAuthTokens};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
/// Most bytes of an error body.
const MAX_ERROR_BODY: usize = 64 * 1024;
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a call waits for the stream on which its server can send requests.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a request failed before there was a protocol answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpTransportError {
    #[error("no TLS: {0}")]
    Tls(String),
    #[error("the request failed")]
    Request(#[source] reqwest::Error),
    #[error("an answer beyond {0} bytes")]
    TooMuch(usize),
    #[error("an answer that holds too many values")]
    TooManyValues,
    #[error("the conversation was ended: {0}")]
    Ended(&'static str),
    #[error("the message cannot be written")]
    Message(#[source] serde_json::Error),
    #[error("the login cannot be used: {0}")]
    Login(String),
}

/// Creates a client that follows redirects within the origin only, and ignores the proxy variables of the
/// environment.
pub(crate) fn same_origin_client() -> Result<reqwest::Client, HttpTransportError> {
    let redirects = reqwest::redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first();
        let same = first.is_some_and(|first| same_origin(first, attempt.url()));
        if attempt.previous().len() > MAX_REDIRECTS || !same {
            attempt.stop()
        } else {
            attempt.follow()
        }
    });
    build_client(redirects)
}

/// Creates a client that follows no redirects.
pub(crate) fn no_redirect_client() -> Result<reqwest::Client, HttpTransportError> {
    build_client(reqwest::redirect::Policy::none())
}

fn build_client(redirects: reqwest::redirect::Policy) -> Result<reqwest::Client, HttpTransportError> {
    // Another part of the program may have installed a provider already: either is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirects)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| HttpTransportError::Tls(error.to_string()))
}

/// Whether two URLs have the same scheme, host and port.
pub(crate) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin() && one.origin().is_tuple()
}

/// Reads a body, if it is no longer than `most` bytes.
pub(crate) async fn read_body(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, HttpTransportError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpTransportError::Request)? {
        if body.len() + chunk.len() > most {
            return Err(HttpTransportError::TooMuch(most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The HTTP transport of the protocol's messages.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    client: reqwest::Client,
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
    tokens: Option<Arc<OAuthTokens>>,
    /// The server spoke the newer protocol before: only its own message, not a bare status, can revoke that.
    strict: bool,
    /// Whether the stream for requests of a server in the older protocol is open, or is known to be unavailable.
    is_listening: watch::Sender<bool>,
    state: Arc<ConversationState>,
}

type HttpTransportFailure = StreamableHttpError<HttpTransportError>;

impl HttpTransport {
    pub(crate) fn new(
        headers: &[(String, SecretString)],
        tokens: Option<Arc<OAuthTokens>>,
        strict: bool,
        state: &Arc<ConversationState>,
    ) -> Result<HttpTransport, (String, HttpTransportError)> {
        let client = same_origin_client().map_err(|error| ("url".to_owned(), error))?;
        let mut sendable = Vec::new();
        for (name, secret) in headers {
            let value = HeaderValue::from_str(secret.reveal());
            let pair = HeaderName::try_from(name.as_str()).ok().zip(value.ok());
            let Some((header, mut value)) = pair else {
                let error = HttpTransportError::Login("it cannot be a header".to_owned());
                return Err((format!("headers.{name}"), error));
            };
            value.set_sensitive(true);
            sendable.push((header, value));
        }
        Ok(HttpTransport {
            client,
            headers: Arc::new(sendable),
            tokens,
            strict,
            is_listening: watch::Sender::new(false),
            state: Arc::clone(state),
        })
    }

    /// Waits until the server can send requests: a request before that is lost, and its call never ends.
    async fn wait_until_listening(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else {
            return;
        };
        if matches!(request.request, ClientRequest::CallToolRequest(_)) {
            let mut listens = self.is_listening.subscribe();
            // A server that does not open the stream in time is called all the same.
            let _ = tokio::time::timeout(LISTEN_TIMEOUT, listens.wait_for(|listens| *listens)).await;
        }
    }

    async fn listen(
        &self,
        request: reqwest::RequestBuilder,
        session: Option<Arc<str>>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpTransportFailure> {
        let response = self.send(request, session, own).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !response.status().is_success() {
            return Err(HttpStatusError::new(response.status().as_u16(), None).into());
        }
        if media_type(&response) != EVENTS {
            return Err(StreamableHttpError::UnexpectedContentType(None));
        }
        Ok(bounded_events(response.bytes_stream(), &self.state, 0))
    }

    async fn send(
        &self,
        mut request: reqwest::RequestBuilder,
        session: Option<Arc<str>>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<reqwest::Response, HttpTransportFailure> {
        // Broken streams resume by themselves, but not after the gateway ended them.
        if let Some(reason) = self.state.fault() {
            return Err(StreamableHttpError::Client(HttpTransportError::Ended(reason)));
        }
        for (name, value) in self.headers.iter() {
            request = request.header(name, value);
        }
        for (name, value) in own {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session.as_ref());
        }
        if let Some(tokens) = &self.tokens {
            let token = tokens.access_token(&self.client).await;
            let token = token.map_err(|error| match error {
                OAuthError::NotLoggedIn => StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())),
                error @ (OAuthError::Metadata { .. }
                | OAuthError::Issuer { .. }
                | OAuthError::Refused { .. }
                | OAuthError::Secret(_)
                | OAuthError::Scopes(_)
                | OAuthError::Answer(_)
                | OAuthError::Timeout(_)
                | OAuthError::Request { .. }
                | OAuthError::Lock(_)
                | OAuthError::Keep(_)) => StreamableHttpError::Client(HttpTransportError::Login(error.to_string())),
            })?;
            request = request.bearer_auth(token.reveal());
        }
        let response = request.send().await;
        let response =
            response.map_err(|error| StreamableHttpError::Client(HttpTransportError::Request(error.without_url())))?;
        let login = || StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()));
        match (response.status(), &self.tokens) {
            (StatusCode::UNAUTHORIZED, _) => Err(login()),
            (StatusCode::FORBIDDEN, Some(tokens)) => {
                let challenge = Challenge::from_headers(response.headers());
                if !challenge.is_insufficient_scope() {
                    return Ok(response);
                }
                let noted = tokens.note_wanted_scopes(&challenge).await;
                noted.map_err(|error| StreamableHttpError::Client(HttpTransportError::Login(error.to_string())))?;
                Err(login())
            }
            _ => Ok(response),
        }
    }

    /// Turns a refusal of the first message in the newer protocol into the answer it stands for.
    fn legacy_refusal(
        &self,
        message: &ClientJsonRpcMessage,
        status: StatusCode,
        body: &[u8],
    ) -> Option<ServerJsonRpcMessage> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        let first = matches!(request.request, ClientRequest::DiscoverRequest(_));
        if !first || !status.is_client_error() || status == StatusCode::FORBIDDEN {
            return None;
        }
        let error = match serde_json::from_slice(body) {
            Ok(ServerJsonRpcMessage::Error(error)) => error.error,
            _ if self.strict => return None,
            _ => ErrorData::invalid_request(format!("refused with status {status}"), None),
        };
        Some(ServerJsonRpcMessage::error(error, Some(request.id.clone())))
    }

    /// Handles servers that answer any unknown first message with an empty result.
    fn legacy_empty_result(&self, message: &ClientJsonRpcMessage, body: &[u8]) -> Option<ServerJsonRpcMessage> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        let first = matches!(request.request, ClientRequest::DiscoverRequest(_));
        if !first || self.strict {
            return None;
        }
        let answer: Value = serde_json::from_slice(body).ok()?;
        let result = answer.get("result")?;
        if result.get("supportedVersions").is_some() {
            return None;
        }
        let error = ErrorData::invalid_request("answered with something else", None);
        Some(ServerJsonRpcMessage::error(error, Some(request.id.clone())))
    }

    async fn read_answer(
        &self,
        message: &ClientJsonRpcMessage,
        response: reqwest::Response,
        attached: bool,
    ) -> Result<StreamableHttpPostResponse, HttpTransportFailure> {
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && attached {
            return Err(StreamableHttpError::SessionExpired);
        }
        let asks = matches!(message, ClientJsonRpcMessage::Request(_));
        let kind = media_type(&response);
        let session = response
            .headers()
            .get(SESSION)
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        if !status.is_success() {
            let text = read_body(response, MAX_ERROR_BODY)
                .await
                .map_err(StreamableHttpError::Client)?;
            if let Some(answer) = self.legacy_refusal(message, status, &text).filter(|_| !attached) {
                return Ok(StreamableHttpPostResponse::Json(answer, None));
            }
            return match serde_json::from_slice(&text) {
                Ok(error @ ServerJsonRpcMessage::Error(_)) if asks => {
                    Ok(StreamableHttpPostResponse::Json(error, session))
                }
                _ => Err(HttpStatusError::new(status.as_u16(), None).into()),
            };
        }
        match kind.as_str() {
            EVENTS => {
                let bytes = response.bytes_stream();
                Ok(StreamableHttpPostResponse::Sse(
                    bounded_events(bytes, &self.state, 1),
                    session,
                ))
            }
            JSON => {
                let text = read_body(response, MAX_LINE_BYTES)
                    .await
                    .map_err(StreamableHttpError::Client)?;
                if json_tree::is_too_large(&text) {
                    return Err(StreamableHttpError::Client(HttpTransportError::TooManyValues));
                }
                if let Some(answer) = self.legacy_empty_result(message, &text).filter(|_| !attached) {
                    return Ok(StreamableHttpPostResponse::Json(answer, None));
                }
                match serde_json::from_slice(&text) {
                    Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                    Err(_) if !asks => Ok(StreamableHttpPostResponse::Accepted),
                    Err(_) => match answered_request_id(&text).filter(|_| json_tree::is_too_deep(&text)) {
                        Some(number) => Ok(StreamableHttpPostResponse::Json(
                            error_answer(TOO_DEEP, number),
                            session,
                        )),
                        None => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Borrowed(
                            "an answer that cannot be read",
                        ))),
                    },
                }
            }
            _ if !asks => Ok(StreamableHttpPostResponse::Accepted),
            other => Err(StreamableHttpError::UnexpectedContentType(Some(
                other.chars().take(80).collect(),
            ))),
        }
    }
}

/// Returns the media type of a response.
fn media_type(response: &reqwest::Response) -> String {
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Bounds a stream of events: none is longer than a message may be, and beyond the `expected` ones there are no more
/// than a server may send unsolicited.
fn bounded_events<B>(
    bytes: impl Stream<Item = reqwest::Result<B>> + Send + 'static,
    state: &Arc<ConversationState>,
    mut expected: usize,
) -> BoxStream<'static, Result<Sse, SseError>>
where
    B: AsRef<[u8]> + Send + 'static,
    B: Into<Vec<u8>>,
{
    let (counted, read) = (Arc::clone(state), Arc::clone(state));
    let bounded = bytes.scan(
        (0usize, false, TreeSize::default()),
        move |(event, ended, tree), chunk| {
            let bounded = chunk.map_err(HttpTransportError::Request).and_then(|chunk| {
                for byte in chunk.as_ref() {
                    // An empty line ends an event.
                    let line_end = matches!(byte, b'\n');
                    let is_over = line_end && *ended;
                    if is_over && expected > 0 {
                        expected -= 1;
                    } else if is_over && counted.count_unsolicited() {
                        return Err(HttpTransportError::Ended("a flood"));
                    }
                    *event = if is_over { 0 } else { *event + 1 };
                    *tree = if is_over { TreeSize::default() } else { *tree };
                    tree.add(*byte);
                    *ended = line_end || (*byte == b'\r' && *ended);
                    if *event > MAX_LINE_BYTES {
                        return Err(HttpTransportError::TooMuch(MAX_LINE_BYTES));
                    }
                    if tree.is_too_large() {
                        return Err(HttpTransportError::TooManyValues);
                    }
                }
                Ok(std::io::Cursor::new(chunk.into()))
            });
            std::future::ready(Some(bounded))
        },
    );
    let events = SseStream::from_bytes_stream(bounded);
    events
        .map(move |event| event.map(|event| checked_event(event, &read)))
        .boxed()
}

/// Records tool changes that an event announces. An event that is nested too deeply becomes an error of its call.
fn checked_event(mut event: Sse, state: &ConversationState) -> Sse {
    let Some(data) = &event.data else { return event };
    state.note_list_change_in(data);
    if json_tree::is_too_deep(data.as_bytes())
        && let Some(number) = answered_request_id(data.as_bytes())
        && let Ok(error) = serde_json::to_string(&error_answer(TOO_DEEP, number))
    {
        event.data = Some(error);
    }
    event
}

impl StreamableHttpClient for HttpTransport {
    type Error = HttpTransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpTransportFailure> {
        let text = serde_json::to_vec(&message)
            .map_err(|error| StreamableHttpError::Client(HttpTransportError::Message(error)))?;
        let attached = session.is_some();
        if attached {
            self.wait_until_listening(&message).await;
        }
        let request = self
            .client
            .post(uri.as_ref())
            .header(header::ACCEPT, format!("{EVENTS}, {JSON}"))
            .header(header::CONTENT_TYPE, JSON)
            .body(text);
        let response = self.send(request, session, own).await?;
        self.read_answer(&message, response, attached).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpTransportFailure> {
        let request = self.client.delete(uri.as_ref());
        self.send(request, Some(session), own).await?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _: Option<String>,
        own: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpTransportFailure> {
        let mut request = self.client.get(uri.as_ref()).header(header::ACCEPT, EVENTS);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let listened = self.listen(request, session, own).await;
        self.is_listening.send_replace(true);
        listened
    }
}
