//! One HTTP connection: its time limits, and how it is closed.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connection_table::{ConnectionSlot, ResponseBody};
use super::limits::HttpLimits;
use super::write_timeout::WriteTimeout;

/// The most headers of a request, and the most bytes of them.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// How long, and for how many bytes, a connection lingers for a client that still sends, so that it can read its answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 16 << 20;

/// Serves a connection until it ends, or until `closing` is true and the current request is answered.
pub(crate) async fn serve_connection(
    stream: TcpStream,
    routes: Router,
    slot: Arc<ConnectionSlot>,
    limits: Arc<HttpLimits>,
    mut closing: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (routes, slot) = (routes.clone(), Arc::clone(&slot));
        Box::pin(async move {
            let Some(active) = slot.begin_request() else {
                // The connection is about to be closed to make room, so a late request does not start.
                return std::future::pending().await;
            };
            let response = answer_request(routes, request.map(Body::new)).await;
            Ok::<_, Infallible>(response.map(|inner| {
                Body::new(ResponseBody {
                    inner,
                    _request: active,
                })
            }))
        })
    });
    let io = TokioIo::new(WriteTimeout::new(stream, limits.send));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(io, service);
    let outcome = {
        let mut ended = pin!(std::future::poll_fn(|context| connection.poll_without_shutdown(context)));
        tokio::select! {
            outcome = &mut ended => Some(outcome),
            // A dropped sender means that the server is gone, which has the same effect.
            _ = closing.wait_for(|closing| *closing) => None,
        }
    };
    let outcome = if let Some(outcome) = outcome {
        outcome
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await
    };
    match outcome {
        // When the server stops, the connection does not linger.
        Ok(()) if *closing.borrow() => {}
        Ok(()) => linger_close(connection.into_parts().io.into_inner().into_inner()).await,
        Err(error) => tracing::debug!(%error, "a connection broke"),
    }
}

async fn answer_request(mut routes: Router, request: Request<Body>) -> Response<Body> {
    use tower_service::Service as _;
    match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Shuts down the write side and reads a little of what the client still sends: closing at once would discard the answer.
async fn linger_close(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let rest = async {
        let mut buffer = vec![0; 64 * 1024];
        let mut left = MAX_LINGER_BYTES;
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    };
    // After the timeout, the client may lose its answer.
    let _ = tokio::time::timeout(LINGER_TIMEOUT, rest).await;
}
