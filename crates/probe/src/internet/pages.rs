//! The pages that every open server has.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::site::{SiteAnswer, SiteRequest};
use super::web::WebBody;

/// The size of the chunks of a download.
const DOWNLOAD_CHUNK_BYTES: usize = 64 << 10;

pub(super) fn status_answer(status: u16) -> SiteAnswer {
    SiteAnswer {
        status,
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        body: format!("{status}\n").into_bytes(),
    }
}

pub(super) fn to_response(answer: SiteAnswer) -> Response<WebBody> {
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
pub(super) async fn build_page(asked: &SiteRequest) -> Response<WebBody> {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let number = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.parse::<u64>().ok());
    if path == "/echo" || path.starts_with("/echo/") {
        return to_response(SiteAnswer::ok("application/json", echo_text(asked)));
    }
    if path == "/page" {
        return to_response(SiteAnswer::ok(
            "text/plain",
            format!("{} {}\n", asked.host, asked.to.ip()),
        ));
    }
    if path == "/redirect" {
        let mut answer = status_answer(302);
        answer.headers.push(("location".to_owned(), query.to_owned()));
        return to_response(answer);
    }
    if let Some(milliseconds) = number("/slow/") {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        return to_response(SiteAnswer::ok("text/plain", "at last\n"));
    }
    if let Some(length) = number("/bytes/") {
        let body = DownloadBody {
            piece: Bytes::from(vec![b'x'; DOWNLOAD_CHUNK_BYTES]),
            left: length,
        };
        let response = Response::builder().header("content-type", "application/octet-stream");
        return response.body(body.boxed_unsync()).unwrap_or_default();
    }
    to_response(status_answer(404))
}

fn echo_text(asked: &SiteRequest) -> String {
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
struct DownloadBody {
    piece: Bytes,
    left: u64,
}

impl HttpBody for DownloadBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = usize::try_from(self.left).map_or(DOWNLOAD_CHUNK_BYTES, |left| left.min(DOWNLOAD_CHUNK_BYTES));
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
