//! Bodies in transit: each frame is counted before it is passed on, and the body ends where it may not continue.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::connection_pool::ConnectionLease;
use super::flow::{EgressFlow, FlowCut};
use super::relay::IDLE_TIMEOUT;

pub(super) type BodyError = Box<dyn Error + Send + Sync>;
/// A body in either direction.
pub(super) type ProxyBody = UnsyncBoxBody<Bytes, BodyError>;

/// Creates a body from bytes that are complete.
pub(super) fn full(bytes: Bytes) -> ProxyBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Creates a body without data.
pub(super) fn empty() -> ProxyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyDirection {
    Out,
    Back,
}

/// A body that counts its bytes against its flow.
struct CountedBody {
    inner: Incoming,
    way: BodyDirection,
    flow: Arc<EgressFlow>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    idle: Pin<Box<Sleep>>,
    /// The lease of the connection it arrives on, which is reused if the body is read to its end.
    lease: Option<ConnectionLease>,
}

/// Wraps the body of an outgoing request.
pub(super) fn request_body(body: Incoming, passage: &Arc<EgressFlow>) -> ProxyBody {
    count_body(body, BodyDirection::Out, passage, None)
}

/// Wraps the body of a response.
pub(super) fn response_body(body: Incoming, passage: &Arc<EgressFlow>, loan: Option<ConnectionLease>) -> ProxyBody {
    count_body(body, BodyDirection::Back, passage, loan)
}

fn count_body(
    inner: Incoming,
    way: BodyDirection,
    passage: &Arc<EgressFlow>,
    loan: Option<ConnectionLease>,
) -> ProxyBody {
    CountedBody {
        inner,
        way,
        closed: Box::pin(passage.wait_until_closed()),
        idle: Box::pin(tokio::time::sleep(IDLE_TIMEOUT)),
        flow: Arc::clone(passage),
        lease: loan,
    }
    .boxed_unsync()
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.closed.as_mut().poll(cx).is_ready() {
            self.flow.set_fault("net.denied");
            return Poll::Ready(Some(Err(Box::new(FlowCut::Forbidden))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
            if self.idle.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.flow.set_fault("net.idle");
            return Poll::Ready(Some(Err("nothing moved for too long".into())));
        };
        self.idle.as_mut().reset(Instant::now() + IDLE_TIMEOUT);
        let Some(frame) = frame else {
            return Poll::Ready(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                self.flow.set_fault(match self.way {
                    BodyDirection::Out => "net.protocol",
                    BodyDirection::Back => "net.unreachable",
                });
                return Poll::Ready(Some(Err(Box::new(error))));
            }
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let counted = match self.way {
            BodyDirection::Out => self.flow.count_out(length),
            BodyDirection::Back => self.flow.count_back(length),
        };
        Poll::Ready(Some(counted.map(|()| frame).map_err(BodyError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if self.inner.is_end_stream()
            && let Some(loan) = self.lease.take()
        {
            loan.release();
        }
    }
}
