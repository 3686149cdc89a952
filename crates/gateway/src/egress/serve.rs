//! Serves the connections whose requests are inspected, in HTTP/1 and HTTP/2.

use std::sync::{Arc, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Egress;
use super::connection_pool::RequestOrigin;
use super::guard::{HeadGuard, RefusedHead};
use super::head;
use super::inspect::InspectedConnection;
use super::rewind::ProxyStream;

/// Most concurrent requests on one HTTP/2 connection.
const MAX_CONCURRENT_STREAMS: u32 = 32;
/// Flow control window in bytes of an HTTP/2 connection, and of each of its streams.
pub(super) const FLOW_CONTROL_WINDOW: u32 = 1 << 20;

/// Serves HTTP/1 until the program disconnects.
pub(super) async fn serve_http1(
    egress: &Arc<Egress>,
    stream: impl ProxyStream + 'static,
    inside: Option<RequestOrigin>,
) {
    let (guard, fault) = HeadGuard::new(stream);
    let exchange = InspectedConnection::new(egress, inside, fault);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(head::MAX_HEAD_LINES)
        .max_buf_size(2 * head::MAX_HEAD_BYTES)
        .half_close(true)
        .auto_date_header(false);
    let answering = Arc::clone(&exchange);
    let service = service_fn(move |request| Arc::clone(&answering).handle_request(request));
    let served = builder.serve_connection(TokioIo::new(guard), service).with_upgrades();
    tokio::select! {
        served = served => log_broken_connection(served),
        () = exchange.hang_up.notified() => return,
    }
    let carried = std::mem::take(&mut *exchange.upgraded.lock().unwrap_or_else(PoisonError::into_inner));
    carried.join_all().await;
}

/// Serves HTTP/2 until the program disconnects.
pub(super) async fn serve_http2(egress: &Arc<Egress>, stream: impl ProxyStream + 'static, inside: RequestOrigin) {
    let exchange = InspectedConnection::new(egress, Some(inside), RefusedHead::default());
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(FLOW_CONTROL_WINDOW)
        .initial_connection_window_size(FLOW_CONTROL_WINDOW)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_header_list_size(u32::try_from(head::MAX_HEAD_BYTES).unwrap_or(u32::MAX))
        .auto_date_header(false);
    let answering = Arc::clone(&exchange);
    let service = service_fn(move |request| Arc::clone(&answering).handle_request(request));
    tokio::select! {
        served = builder.serve_connection(TokioIo::new(stream), service) => log_broken_connection(served),
        () = exchange.hang_up.notified() => {}
    }
}

fn log_broken_connection(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a program's connection broke off");
    }
}
