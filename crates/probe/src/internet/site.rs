//! The requests to a server and its answers, as plain values, for those who write servers of their own.

use std::net::SocketAddr;
use std::sync::Arc;

/// A request as a server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRequest {
    /// The address that the client dialled.
    pub to: SocketAddr,
    /// The scheme: `http` or `https`.
    pub scheme: &'static str,
    /// The host of the request, as the client wrote it.
    pub host: String,
    /// The method, such as `GET`.
    pub method: String,
    /// The path, with the query if there is one.
    pub path: String,
    /// The version: `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// All headers, in their order.
    pub headers: Vec<(String, String)>,
    /// The body of the request.
    pub body: Vec<u8>,
}

impl SiteRequest {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A server's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAnswer {
    /// The status code, such as 200.
    pub status: u16,
    /// The headers, as names and values.
    pub headers: Vec<(String, String)>,
    /// The whole body of the answer.
    pub body: Vec<u8>,
}

impl SiteAnswer {
    /// An answer with status 200 and a content type.
    pub fn ok(kind: &str, body: impl Into<Vec<u8>>) -> SiteAnswer {
        SiteAnswer {
            status: 200,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: body.into(),
        }
    }
}

/// Answers some requests; for the others it returns `None`, and the pages that every server has apply. It may block.
pub type SiteHandler = Arc<dyn Fn(&SiteRequest) -> Option<SiteAnswer> + Send + Sync>;
