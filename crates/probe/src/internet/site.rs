//! What is asked of a server, and what it answers: plain values, for those who write servers of their own.

use std::net::SocketAddr;
use std::sync::Arc;

/// A request as a server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The address that was dialled.
    pub to: SocketAddr,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host of the request, as it was written.
    pub host: String,
    /// Its method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// All headers, in their order.
    pub headers: Vec<(String, String)>,
    /// What came with it.
    pub body: Vec<u8>,
}

impl Asked {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// 200 with a content type.
    pub fn of(kind: &str, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: body.into(),
        }
    }
}

/// Answers some requests; what it does not answer is left to the pages that every server has. It may block.
pub type Site = Arc<dyn Fn(&Asked) -> Option<Answer> + Send + Sync>;
