//! The body of an HTTP error: `{code, message, hint}`.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::client_hints::for_client;

/// A refusal or an error as an HTTP response.
#[derive(Debug, Clone)]
pub(crate) struct HttpProblem(Box<ProblemParts>);

#[derive(Debug, Clone)]
struct ProblemParts {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
    hint: Option<Cow<'static, str>>,
    rule: Option<String>,
    retry_after: Option<Duration>,
    challenge: Option<HeaderValue>,
    persistence: ConnectionPersistence,
}

/// Whether the connection stays open after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPersistence {
    Keep,
    Close,
}

/// A problem as JSON.
#[derive(Serialize)]
pub(crate) struct ProblemBody<'a> {
    code: &'a str,
    message: &'a str,
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
}

impl HttpProblem {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> HttpProblem {
        HttpProblem(Box::new(ProblemParts {
            status,
            code: code.into(),
            message: message.into(),
            hint: None,
            rule: None,
            retry_after: None,
            challenge: None,
            persistence: ConnectionPersistence::Keep,
        }))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> HttpProblem {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_rule(mut self, rule: impl Into<String>) -> HttpProblem {
        self.0.rule = Some(rule.into());
        self
    }

    /// Sets the time after which the client may retry.
    pub(crate) fn with_retry_after(mut self, after: Duration) -> HttpProblem {
        self.0.retry_after = Some(after);
        self
    }

    /// Sets the challenge of the `WWW-Authenticate` header.
    pub(crate) fn with_challenge(mut self, challenge: &str) -> HttpProblem {
        self.0.challenge = HeaderValue::from_str(challenge).ok();
        self
    }

    /// Closes the connection after the response, because the rest of the request is not read.
    pub(crate) fn closing_connection(mut self) -> HttpProblem {
        self.0.persistence = ConnectionPersistence::Close;
        self
    }

    /// An internal error: the log has more detail than the response.
    pub(crate) fn internal(code: &'static str, error: &dyn std::error::Error) -> HttpProblem {
        tracing::error!(code, %error, "a request failed");
        HttpProblem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            code,
            "the server failed; its log says why",
        )
    }

    /// The JSON body of the response.
    pub(crate) fn body(&self) -> ProblemBody<'_> {
        ProblemBody {
            code: &self.0.code,
            message: &self.0.message,
            hint: self.0.hint.as_deref().map(for_client),
            rule: self.0.rule.as_deref(),
        }
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let mut response = (self.0.status, Json(self.body())).into_response();
        let problem = *self.0;
        let headers = response.headers_mut();
        if let Some(after) = problem.retry_after {
            // The value is rounded up, because an early retry would be refused again.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Some(challenge) = problem.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if problem.persistence == ConnectionPersistence::Close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
