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

use super::passage::{Cut, Passage};
use super::relay::IDLE;
use super::upstream::Loan;

pub(super) type Fault = Box<dyn Error + Send + Sync>;
/// A body in either direction.
pub(super) type Body = UnsyncBoxBody<Bytes, Fault>;

/// Creates a body from bytes that are complete.
pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Creates a body without data.
pub(super) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    Back,
}

/// A body that counts its bytes against its flow.
struct Counted {
    inner: Incoming,
    way: Way,
    passage: Arc<Passage>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    idle: Pin<Box<Sleep>>,
    /// The lease of the connection it arrives on, which is reused if the body is read to its end.
    loan: Option<Loan>,
}

/// Wraps the body of an outgoing request.
pub(super) fn out(body: Incoming, passage: &Arc<Passage>) -> Body {
    counted(body, Way::Out, passage, None)
}

/// Wraps the body of a response.
pub(super) fn back(body: Incoming, passage: &Arc<Passage>, loan: Option<Loan>) -> Body {
    counted(body, Way::Back, passage, loan)
}

fn counted(inner: Incoming, way: Way, passage: &Arc<Passage>, loan: Option<Loan>) -> Body {
    Counted {
        inner,
        way,
        closed: Box::pin(passage.closed()),
        idle: Box::pin(tokio::time::sleep(IDLE)),
        passage: Arc::clone(passage),
        loan,
    }
    .boxed_unsync()
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        if self.closed.as_mut().poll(cx).is_ready() {
            self.passage.fault("net.denied");
            return Poll::Ready(Some(Err(Box::new(Cut::Forbidden))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
            if self.idle.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.passage.fault("net.idle");
            return Poll::Ready(Some(Err("nothing moved for too long".into())));
        };
        self.idle.as_mut().reset(Instant::now() + IDLE);
        let Some(frame) = frame else {
            return Poll::Ready(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                self.passage.fault(match self.way {
                    Way::Out => "net.protocol",
                    Way::Back => "net.unreachable",
                });
                return Poll::Ready(Some(Err(Box::new(error))));
            }
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let counted = match self.way {
            Way::Out => self.passage.out(length),
            Way::Back => self.passage.back(length),
        };
        Poll::Ready(Some(counted.map(|()| frame).map_err(Fault::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.inner.is_end_stream()
            && let Some(loan) = self.loan.take()
        {
            loan.give_back();
        }
    }
}
