//! The pages that every open server has.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::site::{Answer, Asked};
use super::web::Body;

/// The size of the chunks of a download.
const PIECE: usize = 64 << 10;

pub(super) fn status(status: u16) -> Answer {
    Answer {
        status,
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        body: format!("{status}\n").into_bytes(),
    }
}

pub(super) fn plain(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let body = Full::new(Bytes::from(answer.body))
        .map_err(|never| match never {})
        .boxed_unsync();
    response.body(body).unwrap_or_default()
}

/// `/echo` returns the request; `/redirect?URL` redirects; `/bytes/N` is that long; `/slow/MS` takes its time; `/page` is a
/// page. Everything else is not found.
pub(super) async fn page(asked: &Asked) -> Response<Body> {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let number = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.parse::<u64>().ok());
    if path == "/echo" || path.starts_with("/echo/") {
        return plain(Answer::of("application/json", echo(asked)));
    }
    if path == "/page" {
        return plain(Answer::of("text/plain", format!("{} {}\n", asked.host, asked.to.ip())));
    }
    if path == "/redirect" {
        let mut answer = status(302);
        answer.headers.push(("location".to_owned(), query.to_owned()));
        return plain(answer);
    }
    if let Some(milliseconds) = number("/slow/") {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        return plain(Answer::of("text/plain", "at last\n"));
    }
    if let Some(length) = number("/bytes/") {
        let body = Download {
            piece: Bytes::from(vec![b'x'; PIECE]),
            left: length,
        };
        let response = Response::builder().header("content-type", "application/octet-stream");
        return response.body(body.boxed_unsync()).unwrap_or_default();
    }
    plain(status(404))
}

fn echo(asked: &Asked) -> String {
    serde_json::json!({
        "method": asked.method,
        "scheme": asked.scheme,
        "host": asked.host,
        "path": asked.path,
        "version": asked.version,
        "headers": asked.headers,
        "body": String::from_utf8_lossy(&asked.body),
    })
    .to_string()
}

/// Repeats the same chunk.
#[derive(Debug)]
struct Download {
    piece: Bytes,
    left: u64,
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = usize::try_from(self.left).map_or(PIECE, |left| left.min(PIECE));
        self.left -= length as u64;
        Poll::Ready(Some(Ok(Frame::data(self.piece.slice(..length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
