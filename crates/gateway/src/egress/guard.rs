//! Guards the HTTP/1 parser: parses every head strictly first and follows bodies to their ends, so that the parser
//! only sees input with one reading. A refused head is replaced by a harmless request, whose response is the refusal;
//! nothing after it is read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::chunk::{Chunks, Next};
use super::head::{self, Framing};
use super::refuse;
use super::through::writes_through;
use crate::refusal::Refusal;

/// Most time for a head, from its first byte.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Most time between two requests.
const BETWEEN: Duration = Duration::from_mins(5);
/// The request that replaces a refused head.
const INSTEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: refused.invalid\r\nconnection: close\r\n\r\n";

/// A refused head: its index on the connection, counted from 0, and the refusal.
#[derive(Debug, Default, Clone)]
pub(super) struct Fault(Arc<Mutex<Option<(u64, Refusal)>>>);

impl Fault {
    /// Returns the refusal of the request with this number, if its head was refused.
    pub(super) fn of(&self, number: u64) -> Option<Refusal> {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fault
            .as_ref()
            .filter(|(at, _)| *at == number)
            .map(|(_, refusal)| refusal.clone())
    }

    /// Whether any head was refused.
    pub(super) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, number: u64, refusal: Refusal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, refusal));
    }
}

#[derive(Debug)]
enum State {
    Head {
        searched: usize,
    },
    Length(u64),
    Chunked(Chunks),
    /// Another protocol follows; the guard no longer scans.
    Free,
    /// The refusal is being sent; then the connection closes.
    Refused,
    /// The body is invalid; the part that was passed on is cut off.
    Broken,
    /// Nothing more is read.
    Ended,
}

/// The guarded side of a stream.
#[derive(Debug)]
pub(super) struct Guard<S> {
    stream: S,
    state: State,
    /// Bytes that are read but not scanned.
    raw: BytesMut,
    /// Bytes that are scanned and may be passed on.
    good: BytesMut,
    heads: u64,
    fault: Fault,
    timer: Pin<Box<Sleep>>,
}

impl<S> Guard<S> {
    pub(super) fn new(stream: S) -> (Guard<S>, Fault) {
        let fault = Fault::default();
        let guard = Guard {
            stream,
            state: State::Head { searched: 0 },
            raw: BytesMut::new(),
            good: BytesMut::new(),
            heads: 0,
            fault: fault.clone(),
            timer: Box::pin(tokio::time::sleep(PATIENCE)),
        };
        (guard, fault)
    }

    /// Scans the bytes that were read.
    fn look(&mut self) {
        while !self.raw.is_empty() {
            match &mut self.state {
                State::Head { searched } => {
                    let end = head::end(&self.raw, *searched);
                    *searched = self.raw.len();
                    match end {
                        Some(end) if end <= head::MOST => self.head(end),
                        None if self.raw.len() < head::MOST => return,
                        Some(_) | None => self.refuse(refuse::protocol("the head of the request is too long")),
                    }
                }
                State::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(self.raw.len());
                    *left -= length as u64;
                    self.good.unsplit(self.raw.split_to(length));
                    if matches!(self.state, State::Length(0)) {
                        self.next();
                    }
                }
                State::Chunked(chunks) => {
                    let (length, next) = chunks.take(&self.raw);
                    self.good.unsplit(self.raw.split_to(length));
                    match next {
                        Next::More => {}
                        Next::Over => self.next(),
                        Next::Bad => self.state = State::Broken,
                    }
                }
                State::Free => self.good.unsplit(self.raw.split()),
                State::Refused | State::Broken | State::Ended => self.raw.clear(),
            }
        }
    }

    fn next(&mut self) {
        self.state = State::Head { searched: 0 };
        let wait = if self.raw.is_empty() { BETWEEN } else { PATIENCE };
        self.timer.as_mut().reset(Instant::now() + wait);
    }

    fn head(&mut self, end: usize) {
        let found = head::read(&self.raw[..end]);
        let found = found.and_then(|head| match head.method.as_str() {
            "CONNECT" => Err(refuse::protocol("a tunnel begins on a connection of its own")),
            _ => head::uri(&head.target).map(|()| head),
        });
        match found {
            Err(refusal) => self.refuse(refusal),
            Ok(head) => {
                self.good.unsplit(self.raw.split_to(end));
                self.heads += 1;
                match head.framing {
                    _ if head.upgrade => self.state = State::Free,
                    Framing::None | Framing::Length(0) => self.next(),
                    Framing::Length(length) => self.state = State::Length(length),
                    Framing::Chunked => self.state = State::Chunked(Chunks::default()),
                }
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.fault.set(self.heads, refusal);
        self.heads += 1;
        self.raw.clear();
        self.good.extend_from_slice(INSTEAD);
        self.state = State::Refused;
    }

    /// Whether the time is up; only while a head is expected.
    fn late(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(self.state, State::Head { .. }) && self.timer.as_mut().poll(cx).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.good.is_empty() {
                let length = this.good.len().min(into.remaining());
                into.put_slice(&this.good[..length]);
                this.good.advance(length);
                return Poll::Ready(Ok(()));
            }
            match this.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Refused => return Poll::Pending,
                State::Broken => {
                    let message = "the request's chunks cannot be read in one way only";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
                }
                // Nothing to scan: the bytes go straight into the reader's buffer.
                State::Free => return Pin::new(&mut this.stream).poll_read(cx, into),
                State::Length(left) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX).min(into.remaining());
                    let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
                    ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
                    let length = part.filled().len();
                    into.advance(length);
                    let left = left - length as u64;
                    this.state = State::Length(left);
                    if left == 0 {
                        this.next();
                    }
                    return Poll::Ready(Ok(()));
                }
                State::Head { .. } | State::Chunked(_) => {}
            }
            this.raw.reserve(8 * 1024);
            let began = this.raw.is_empty();
            let length = {
                let mut buffer = [0; 8 * 1024];
                let mut part = ReadBuf::new(&mut buffer);
                let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part)?;
                if polled.is_pending() {
                    if !this.late(cx) {
                        return Poll::Pending;
                    }
                    this.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                this.raw.put_slice(part.filled());
                part.filled().len()
            };
            if length == 0 {
                // An unfinished head is not a request.
                this.state = State::Ended;
                return Poll::Ready(Ok(()));
            }
            if began && matches!(this.state, State::Head { .. }) && this.heads > 0 {
                this.timer.as_mut().reset(Instant::now() + PATIENCE);
            }
            this.look();
        }
    }
}

writes_through!(Guard, stream);

#[cfg(test)]
mod tests;
