//! WebSocket: checked as the GET that requests it, then relayed both ways.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ring::digest;

use super::body::{self, ProxyBody};
use super::connection_pool::{self, RequestOrigin};
use super::forward;
use super::inspect::{InspectedConnection, OutgoingRequest};
use super::refuse;
use super::relay::relay;
use super::tls::AlpnChoice;
use crate::refusal::RequestRefusal;

/// The GUID of RFC 6455, section 1.3.
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Requests the upgrade from the host over a separate connection.
pub(super) async fn forward_upgrade(
    exchange: &InspectedConnection,
    sent: OutgoingRequest<'_>,
    mut parts: Parts,
    addresses: &[IpAddr],
) -> Result<Response<ProxyBody>, RequestRefusal> {
    let OutgoingRequest {
        target: want,
        flow: passage,
        path,
    } = sent;
    let origin = RequestOrigin::from_request(&want.request);
    let mut asked = Request::new(());
    *asked.extensions_mut() = std::mem::take(&mut parts.extensions);
    let near = hyper::upgrade::on(asked);
    let expected = accept_key(&parts.headers).ok_or_else(|| refuse::protocol("a WebSocket without a key"))?;
    let mut link = tokio::select! {
        biased;
        () = passage.wait_until_closed() => return Err(exchange.egress.changed(&want.request)),
        link = connection_pool::connect(&origin, addresses, exchange.egress.roots(), AlpnChoice::Http1) => link?,
    };
    let mut request = forward::forwarded_request(parts, body::empty(), &origin, path, false)?;
    let headers = request.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let host = origin.host.to_string();
    let cut = |cut: super::flow::FlowCut| refuse::unreachable(&host, &cut.to_string());
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    passage
        .count_out(forward::head_size(request.headers()) + target)
        .map_err(cut)?;
    let answered = tokio::select! {
        biased;
        () = passage.wait_until_closed() => return Err(exchange.egress.changed(&want.request)),
        answered = link.send(request) => answered,
    };
    let mut response = answered.map_err(|unsent| refuse::unreachable(&host, &unsent.error.to_string()))?;
    passage.set_status(response.status());
    passage
        .count_back(forward::head_size(response.headers()))
        .map_err(cut)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (mut head, incoming) = response.into_parts();
        forward::strip_hop_by_hop(&mut head.headers);
        head.extensions = http::Extensions::new();
        let back = body::response_body(incoming, passage, None);
        let back = exchange.egress.attachments().mask_response(&mut head.headers, back)?;
        return Ok(Response::from_parts(head, back));
    }
    if response.headers().get(SEC_WEBSOCKET_ACCEPT) != Some(&expected) {
        return Err(refuse::unreachable(&host, "it did not answer as a WebSocket does"));
    }
    let far = hyper::upgrade::on(&mut response);
    let passage = Arc::clone(passage);
    let attachments = exchange.egress.attachments().clone();
    let mut carried = exchange.upgraded.lock().unwrap_or_else(PoisonError::into_inner);
    carried.spawn(async move {
        // The program's side is available once the response is written.
        if let (Ok(near), Ok(far)) = tokio::join!(near, far) {
            relay(TokioIo::new(near), attachments.mask_stream(TokioIo::new(far)), &passage).await;
        }
    });
    drop(carried);
    let mut head = response.into_parts().0;
    forward::strip_hop_by_hop(&mut head.headers);
    exchange.egress.attachments().mask_headers(&mut head.headers);
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    head.extensions = http::Extensions::new();
    Ok(Response::from_parts(head, body::empty()))
}

/// Returns the `Sec-WebSocket-Accept` value that matches the request's key.
fn accept_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key.as_bytes());
    context.update(WEBSOCKET_GUID);
    HeaderValue::from_str(&STANDARD.encode(context.finish())).ok()
}

#[cfg(test)]
mod tests;
