//! The arguments of `fetch`, parsed and checked: from here on a request has exactly one reading.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap,
    HeaderName, HeaderValue, USER_AGENT,
};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use ringfence_policy::Scheme;
use serde::Deserialize;
use url::Url;

use super::{MAX_BODY, RULE, too_large};
use crate::egress::connection_pool::RequestOrigin;
use crate::egress::{head, refuse};
use crate::refusal::RequestRefusal;

/// Headers of the connection, which the program does not own: as in browsers, they are left out.
const CONNECTION_HEADERS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// What to do with a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RedirectMode {
    #[default]
    Follow,
    Manual,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// The body in base64, if there is one.
    body: Option<String>,
    #[serde(default)]
    redirect: RedirectMode,
}

/// A request that is valid and can be sent.
#[derive(Debug)]
pub(super) struct FetchRequest {
    pub(super) url: Url,
    pub(super) method: Method,
    headers: HeaderMap,
    body: Bytes,
    pub(super) redirect: RedirectMode,
}

impl FetchRequest {
    pub(super) fn parse(text: &str) -> Result<FetchRequest, RequestRefusal> {
        let written: FetchArguments =
            serde_json::from_str(text).map_err(|error| invalid_request(&error.to_string()))?;
        let url = Url::parse(&written.url).map_err(|error| invalid_request(&format!("`url` is no URL: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                invalid_request("a name or password in the URL").with_hint("send them in the header `authorization`")
            );
        }
        let method = written.method.unwrap_or_else(|| "GET".to_owned());
        let usual = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let usual = usual.into_iter().find(|usual| usual.eq_ignore_ascii_case(&method));
        let method = usual.unwrap_or(&method).parse::<Method>();
        let method = method.map_err(|_| invalid_request("`method` is not a method"))?;
        if matches!(method, Method::CONNECT | Method::TRACE) {
            return Err(invalid_request(&format!("the method {method}")));
        }
        let body = written.body.map(|body| STANDARD.decode(body)).transpose();
        let body = body.map_err(|_| invalid_request("`body` is not base64"))?;
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            return Err(invalid_request(&format!("a body with {method}")));
        }
        let body = body.unwrap_or_default();
        if body.len() > MAX_BODY {
            return Err(too_large("the body of the request"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in written.headers {
            let named = HeaderName::try_from(&name).map_err(|_| invalid_request("a header has an invalid name"))?;
            if CONNECTION_HEADERS.contains(&named.as_str()) || named.as_str().starts_with("proxy-") {
                continue;
            }
            let value = HeaderValue::try_from(value.trim());
            let value =
                value.map_err(|_| invalid_request(&format!("the value of the header `{named}` cannot be sent")))?;
            headers.append(named, value);
        }
        Ok(FetchRequest {
            url,
            method,
            headers,
            body: Bytes::from(body),
            redirect: written.redirect,
        })
    }

    /// Inserts the session's stand-ins where headers name a credential as `{{MAX_NAME_BYTES}}`: code has no variables to read
    /// them from, and a name, unlike a stand-in, is the same in every run.
    pub(super) fn insert_stand_ins(&mut self, stand_ins: &[(String, String)]) {
        for value in self.headers.values_mut() {
            let Ok(text) = value.to_str() else { continue };
            let mut filled = text.to_owned();
            for (name, stand_in) in stand_ins {
                filled = filled.replace(&format!("{{{{{name}}}}}"), stand_in);
            }
            if filled != text
                && let Ok(filled) = HeaderValue::try_from(filled)
            {
                *value = filled;
            }
        }
    }

    pub(super) fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }

    pub(super) fn origin(&self) -> Result<RequestOrigin, RequestRefusal> {
        let scheme = match self.url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => {
                return Err(refuse::protocol(format!("`fetch` knows http and https, not `{other}`"))
                    .with_hint("use a URL that begins with https:// or http://"));
            }
        };
        let (host, _) = head::parse_authority(self.url.host_str().unwrap_or_default())?;
        let port = self.url.port().unwrap_or(scheme.port());
        Ok(RequestOrigin { scheme, host, port })
    }

    /// Builds the request to a host, as it is sent over a connection.
    pub(super) fn build_request(&self, origin: &RequestOrigin) -> Result<Request<Full<Bytes>>, RequestRefusal> {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{query}", self.url.path()))
            .header(HOST, origin.authority());
        let mut request = request
            .body(Full::new(self.body.clone()))
            .map_err(|_| invalid_request("the URL cannot be sent"))?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        // Some hosts refuse requests without a user agent.
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("fetch"));
        Ok(request)
    }

    /// Turns this into the request that follows a redirect, as browsers do.
    pub(super) fn follow_redirect(&mut self, next: Url, status: StatusCode) {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => !matches!(self.method, Method::GET | Method::HEAD),
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Bytes::new();
            for name in [CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE] {
                self.headers.remove(name);
            }
        }
        if next.origin() != self.url.origin() {
            // Credentials for one host are not sent to another.
            self.headers.remove(AUTHORIZATION);
            self.headers.remove(COOKIE);
        }
        self.url = next;
    }
}

fn invalid_request(why: &str) -> RequestRefusal {
    RequestRefusal::new("net.request", format!("`fetch` refuses this request: {why}"))
        .by_rule(RULE)
        .with_hint("fetch(\"https://host/path\", { method, headers, body, redirect })")
}
