//! Builds the forwarded request: with new framing and hop-by-hop headers, and nothing that reveals the proxy.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http::{Request, Version};
use ringfence_policy::UrlPath;

use super::body::ProxyBody;
use super::connection_pool::RequestOrigin;
use super::refuse::{self, CODE_HEADER};
use crate::refusal::RequestRefusal;

/// Headers that concern two neighbours only and are never forwarded.
const HOP_BY_HOP_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Whether a request asks to upgrade to WebSocket, the only upgrade that the proxy carries.
pub(super) fn is_websocket(parts: &Parts) -> bool {
    let upgrade = parts.headers.get(header::UPGRADE);
    parts.version == Version::HTTP_11
        && parts.method == http::Method::GET
        && upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Removes the hop-by-hop headers.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP_HEADERS) {
        headers.remove(name);
    }
    // Every recipient understands `trailers`, and gRPC requires it.
    let trailers = headers.get(header::TE).is_some_and(|te| te == "trailers");
    if !trailers {
        headers.remove(header::TE);
    }
    headers.remove(CODE_HEADER);
}

/// Builds the request for the host. `path` is the canonical path if the rules checked it, so that what is sent is
/// what was checked.
pub(super) fn forwarded_request(
    mut parts: Parts,
    body: ProxyBody,
    origin: &RequestOrigin,
    path: Option<&UrlPath>,
    two: bool,
) -> Result<Request<ProxyBody>, RequestRefusal> {
    let unfit = || refuse::protocol("the URL cannot be sent");
    strip_hop_by_hop(&mut parts.headers);
    // Framing follows from the body, and hyper writes it.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::EXPECT);
    let wanted = match path {
        Some(path) => {
            let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            PathAndQuery::try_from(format!("{path}{query}")).map_err(|_| unfit())?
        }
        None => parts.uri.path_and_query().cloned().ok_or_else(unfit)?,
    };
    let authority = origin.authority();
    let mut uri = Uri::builder().path_and_query(wanted);
    if two {
        parts.headers.remove(header::HOST);
        uri = uri
            .scheme(super::policy_check::scheme_name(origin.scheme))
            .authority(authority);
        parts.version = Version::HTTP_2;
        join_cookies(&mut parts.headers);
    } else {
        let host = HeaderValue::from_str(&authority).map_err(|_| unfit())?;
        parts.headers.insert(header::HOST, host);
        parts.version = Version::HTTP_11;
        parts.headers.remove(header::TE);
        join_cookies(&mut parts.headers);
    }
    parts.uri = uri.build().map_err(|_| unfit())?;
    parts.extensions = http::Extensions::new();
    Ok(Request::from_parts(parts, body))
}

/// Joins cookie headers: HTTP/2 allows one cookie per line, HTTP/1 has one line.
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    if cookies.len() < 2 {
        return;
    }
    let parts: Vec<&[u8]> = cookies.iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&parts.join(b"; ".as_slice())) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Returns the approximate size of a head on the wire, in bytes.
pub(super) fn head_size(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum::<usize>()
        + 16
}

#[cfg(test)]
mod tests;
