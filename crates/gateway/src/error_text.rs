//! Describes transport errors in plain words, without the names of types and libraries.

use std::error::Error;
use std::io;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};

use crate::http::HttpTransportError;

/// Describes why a connection did not open.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library may add others, which say themselves what they are"
)]
pub(crate) fn describe_connect_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => describe_transport_error(error),
        // The error of the older protocol is the one to report; most servers know no other.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => describe_connect_error(fallback),
        ClientInitializeError::JsonRpcError(error) => format!("it refused the first message: {}", error.message),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of the protocol that we speak".to_owned()
        }
        // The unexpected response may be long, and comes from the server.
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "the first answer is not one of the protocol".to_owned()
        }
        other => error_chain(other),
    }
}

/// Describes why a program did not start, without the system's error number.
pub(crate) fn of_start(error: &dyn Error) -> String {
    let text = error.to_string();
    let mut letters = text.split(" (os error ").next().unwrap_or(&text).chars();
    let first: Vec<char> = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    first.into_iter().chain(letters).collect()
}

/// Describes why a request has no answer.
pub(crate) fn describe_request_error(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(error) = error {
        describe_transport_error(error)
    } else {
        error_chain(error)
    }
}

/// Whether the server was not reached at all, so that nothing was sent.
pub(crate) fn is_connect_failure(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else {
        return false;
    };
    let mut request = causes(error.error.as_ref()).filter_map(|cause| cause.downcast_ref::<reqwest::Error>());
    request.any(reqwest::Error::is_connect)
}

fn describe_transport_error(error: &DynamicTransportError) -> String {
    for cause in causes(error.error.as_ref()) {
        if let Some(request) = cause.downcast_ref::<reqwest::Error>() {
            return describe_http_error(request);
        }
        if let Some(status) = cause.downcast_ref::<HttpStatusError>() {
            return format!("it answered with the HTTP status {}", status.status);
        }
        if let Some(error) = cause
            .downcast_ref::<HttpTransportError>()
            .filter(|error| error.source().is_none())
        {
            return error.to_string();
        }
    }
    error_chain(error.error.as_ref())
}

fn describe_http_error(error: &reqwest::Error) -> String {
    let io = causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .last();
    let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
    if error.is_connect() {
        return match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => "connection refused, nothing listens at its address".to_owned(),
            _ if error.is_timeout() => "its address does not answer".to_owned(),
            _ => format!("its address cannot be reached: {last}"),
        };
    }
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    format!("the request failed: {last}")
}

/// Iterates over an error and its causes, the innermost last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause| {
        let cause: &'a (dyn Error + 'static) = *cause;
        // The library does not expose the cause of this error.
        match cause.downcast_ref::<StreamableHttpError<HttpTransportError>>() {
            Some(StreamableHttpError::Client(error)) => Some(error),
            _ => cause.source(),
        }
    })
}

/// Formats an error with its causes, in one line.
pub(crate) fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
