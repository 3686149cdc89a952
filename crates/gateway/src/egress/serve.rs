//! Serves the connections whose requests are inspected, in HTTP/1 and HTTP/2.

use std::sync::{Arc, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Egress;
use super::guard::{Fault, Guard};
use super::head;
use super::inspect::Exchange;
use super::rewind::Stream;
use super::upstream::Origin;

/// Most concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 32;
/// Flow control window in bytes of an HTTP/2 connection, and of each of its streams.
pub(super) const WINDOW: u32 = 1 << 20;

/// Serves HTTP/1 until the program disconnects.
pub(super) async fn one(egress: &Arc<Egress>, stream: impl Stream + 'static, inside: Option<Origin>) {
    let (guard, fault) = Guard::new(stream);
    let exchange = Exchange::new(egress, inside, fault);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(head::LINES)
        .max_buf_size(2 * head::MOST)
        .half_close(true)
        .auto_date_header(false);
    let answering = Arc::clone(&exchange);
    let service = service_fn(move |request| Arc::clone(&answering).answer(request));
    let served = builder.serve_connection(TokioIo::new(guard), service).with_upgrades();
    tokio::select! {
        served = served => broken(served),
        () = exchange.line.notified() => return,
    }
    let carried = std::mem::take(&mut *exchange.carried.lock().unwrap_or_else(PoisonError::into_inner));
    carried.join_all().await;
}

/// Serves HTTP/2 until the program disconnects.
pub(super) async fn two(egress: &Arc<Egress>, stream: impl Stream + 'static, inside: Origin) {
    let exchange = Exchange::new(egress, Some(inside), Fault::default());
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(head::MOST).unwrap_or(u32::MAX))
        .auto_date_header(false);
    let answering = Arc::clone(&exchange);
    let service = service_fn(move |request| Arc::clone(&answering).answer(request));
    tokio::select! {
        served = builder.serve_connection(TokioIo::new(stream), service) => broken(served),
        () = exchange.line.notified() => {}
    }
}

fn broken(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a program's connection broke off");
    }
}
