//! Masked streams and bodies: hides credentials in responses, and ends an outgoing body at a stand-in.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

use super::body::{BodyError, ProxyBody};
use super::flow::EgressFlow;
use super::write_passthrough::writes_through;
use crate::credential::{StandIns, StreamMask};

/// Most bytes of a stream that are read at once.
const MAX_READ_BYTES: usize = 16 * 1024;

/// Returns the body with its credentials masked; its length does not change.
pub(super) fn masked_body(body: ProxyBody, mask: StreamMask) -> ProxyBody {
    MaskedBody::new(body, mask, None).boxed_unsync()
}

/// Returns the body, which ends where a stand-in begins.
pub(super) fn leak_checked_body(body: ProxyBody, stand_ins: &Arc<StandIns>, passage: &Arc<EgressFlow>) -> ProxyBody {
    let found = LeakContext {
        stand_ins: Arc::clone(stand_ins),
        flow: Arc::clone(passage),
    };
    MaskedBody::new(body, stand_ins.leak_detector(), Some(found)).boxed_unsync()
}

/// Masks credentials in header values; removes headers whose name contains one.
pub(super) fn mask_headers(mask: &mut StreamMask, headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .keys()
        .filter(|name| mask.matches_header_name(name.as_str()))
        .cloned()
        .collect();
    for name in named {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        mask.mask_in_place(&mut bytes);
        if bytes != value.as_bytes() {
            *value = HeaderValue::from_bytes(&bytes).unwrap_or_else(|_| HeaderValue::from_static(""));
        }
    }
}

struct LeakContext {
    stand_ins: Arc<StandIns>,
    flow: Arc<EgressFlow>,
}

struct MaskedBody {
    inner: ProxyBody,
    mask: StreamMask,
    found: Option<LeakContext>,
    /// Frames to return before the next frame of the inner body.
    next: VecDeque<Frame<Bytes>>,
    held: u64,
    ended: bool,
}

impl MaskedBody {
    fn new(inner: ProxyBody, mask: StreamMask, found: Option<LeakContext>) -> MaskedBody {
        MaskedBody {
            inner,
            mask,
            found,
            next: VecDeque::new(),
            held: 0,
            ended: false,
        }
    }

    fn push_bytes(&mut self, bytes: &Bytes) {
        let ready = self.mask.push(bytes);
        self.held = (self.held + bytes.len() as u64).saturating_sub(ready.len() as u64);
        self.queue_bytes(ready);
    }

    fn finish(&mut self) {
        let rest = self.mask.finish();
        self.held = 0;
        self.queue_bytes(rest);
    }

    fn queue_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.next.push_back(Frame::data(bytes.into()));
        }
    }
}

impl hyper::body::Body for MaskedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.mask.has_matched()
                && let Some(found) = &self.found
            {
                let misuse = found.stand_ins.misuse_in_body();
                found.flow.cut_for_misuse(&misuse);
                return Poll::Ready(Some(Err(Box::new(*misuse.refusal))));
            }
            if let Some(frame) = self.next.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
                return Poll::Pending;
            };
            match frame.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => self.push_bytes(&data),
                Some(Err(frame)) => {
                    self.finish();
                    if let Ok(mut trailers) = frame.into_trailers() {
                        mask_headers(&mut self.mask, &mut trailers);
                        self.next.push_back(Frame::trailers(trailers));
                    }
                }
                None => {
                    self.finish();
                    self.ended = true;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_empty() && self.held == 0 && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let waiting: u64 = self
            .next
            .iter()
            .filter_map(Frame::data_ref)
            .map(|data| data.len() as u64)
            .sum();
        let (inner, more) = (self.inner.size_hint(), waiting + self.held);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(more));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(more));
        }
        hint
    }
}

/// A stream whose read side is masked.
pub(super) struct MaskedStream<S> {
    inner: S,
    mask: Option<StreamMask>,
    ready: Bytes,
    ended: bool,
}

impl<S> MaskedStream<S> {
    pub(super) fn new(inner: S, mask: Option<StreamMask>) -> MaskedStream<S> {
        MaskedStream {
            inner,
            mask,
            ready: Bytes::new(),
            ended: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MaskedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(mask) = &mut this.mask else {
            return Pin::new(&mut this.inner).poll_read(cx, buffer);
        };
        while this.ready.is_empty() && !this.ended {
            let mut chunk = [0; MAX_READ_BYTES];
            let mut read = ReadBuf::new(&mut chunk);
            if Pin::new(&mut this.inner).poll_read(cx, &mut read)?.is_pending() {
                return Poll::Pending;
            }
            let came = read.filled();
            this.ended = came.is_empty();
            this.ready = if this.ended { mask.finish() } else { mask.push(came) }.into();
        }
        let count = this.ready.len().min(buffer.remaining());
        buffer.put_slice(&this.ready[..count]);
        this.ready.advance(count);
        Poll::Ready(Ok(()))
    }
}

writes_through!(MaskedStream, inner);
