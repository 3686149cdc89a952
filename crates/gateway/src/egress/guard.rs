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

use super::chunk::{ChunkScanner, ScanProgress};
use super::head::{self, BodyFraming};
use super::refuse;
use super::write_passthrough::writes_through;
use crate::refusal::RequestRefusal;

/// Most time for a head, from its first byte.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Most time between two requests.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_mins(5);
/// The request that replaces a refused head.
const REPLACEMENT_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: refused.invalid\r\nconnection: close\r\n\r\n";

/// A refused head: its index on the connection, counted from 0, and the refusal.
#[derive(Debug, Default, Clone)]
pub(super) struct RefusedHead(Arc<Mutex<Option<(u64, RequestRefusal)>>>);

impl RefusedHead {
    /// Returns the refusal of the request with this number, if its head was refused.
    pub(super) fn refusal_for(&self, number: u64) -> Option<RequestRefusal> {
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

    fn set(&self, number: u64, refusal: RequestRefusal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, refusal));
    }
}

#[derive(Debug)]
enum GuardState {
    Head {
        searched: usize,
    },
    Length(u64),
    Chunked(ChunkScanner),
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
pub(super) struct HeadGuard<S> {
    stream: S,
    state: GuardState,
    /// Bytes that are read but not scanned.
    unchecked: BytesMut,
    /// Bytes that are scanned and may be passed on.
    checked: BytesMut,
    heads: u64,
    refused_head: RefusedHead,
    timer: Pin<Box<Sleep>>,
}

impl<S> HeadGuard<S> {
    pub(super) fn new(stream: S) -> (HeadGuard<S>, RefusedHead) {
        let fault = RefusedHead::default();
        let guard = HeadGuard {
            stream,
            state: GuardState::Head { searched: 0 },
            unchecked: BytesMut::new(),
            checked: BytesMut::new(),
            heads: 0,
            refused_head: fault.clone(),
            timer: Box::pin(tokio::time::sleep(HEAD_TIMEOUT)),
        };
        (guard, fault)
    }

    /// Scans the bytes that were read.
    fn scan(&mut self) {
        while !self.unchecked.is_empty() {
            match &mut self.state {
                GuardState::Head { searched } => {
                    let end = head::find_end(&self.unchecked, *searched);
                    *searched = self.unchecked.len();
                    match end {
                        Some(end) if end <= head::MAX_HEAD_BYTES => self.accept_head(end),
                        None if self.unchecked.len() < head::MAX_HEAD_BYTES => return,
                        Some(_) | None => self.refuse(refuse::protocol("the head of the request is too long")),
                    }
                }
                GuardState::Length(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(self.unchecked.len());
                    *left -= length as u64;
                    self.checked.unsplit(self.unchecked.split_to(length));
                    if matches!(self.state, GuardState::Length(0)) {
                        self.scan_step();
                    }
                }
                GuardState::Chunked(chunks) => {
                    let (length, next) = chunks.scan(&self.unchecked);
                    self.checked.unsplit(self.unchecked.split_to(length));
                    match next {
                        ScanProgress::More => {}
                        ScanProgress::Complete => self.scan_step(),
                        ScanProgress::Invalid => self.state = GuardState::Broken,
                    }
                }
                GuardState::Free => self.checked.unsplit(self.unchecked.split()),
                GuardState::Refused | GuardState::Broken | GuardState::Ended => self.unchecked.clear(),
            }
        }
    }

    fn scan_step(&mut self) {
        self.state = GuardState::Head { searched: 0 };
        let wait = if self.unchecked.is_empty() {
            KEEP_ALIVE_TIMEOUT
        } else {
            HEAD_TIMEOUT
        };
        self.timer.as_mut().reset(Instant::now() + wait);
    }

    fn accept_head(&mut self, end: usize) {
        let found = head::parse_head(&self.unchecked[..end]);
        let found = found.and_then(|head| match head.method.as_str() {
            "CONNECT" => Err(refuse::protocol("a tunnel begins on a connection of its own")),
            _ => head::check_target(&head.target).map(|()| head),
        });
        match found {
            Err(refusal) => self.refuse(refusal),
            Ok(head) => {
                self.checked.unsplit(self.unchecked.split_to(end));
                self.heads += 1;
                match head.framing {
                    _ if head.upgrade => self.state = GuardState::Free,
                    BodyFraming::None | BodyFraming::Length(0) => self.scan_step(),
                    BodyFraming::Length(length) => self.state = GuardState::Length(length),
                    BodyFraming::Chunked => self.state = GuardState::Chunked(ChunkScanner::default()),
                }
            }
        }
    }

    fn refuse(&mut self, refusal: RequestRefusal) {
        self.refused_head.set(self.heads, refusal);
        self.heads += 1;
        self.unchecked.clear();
        self.checked.extend_from_slice(REPLACEMENT_REQUEST);
        self.state = GuardState::Refused;
    }

    /// Whether the time is up; only while a head is expected.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(self.state, GuardState::Head { .. }) && self.timer.as_mut().poll(cx).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.checked.is_empty() {
                let length = this.checked.len().min(into.remaining());
                into.put_slice(&this.checked[..length]);
                this.checked.advance(length);
                return Poll::Ready(Ok(()));
            }
            match this.state {
                GuardState::Ended => return Poll::Ready(Ok(())),
                GuardState::Refused => return Poll::Pending,
                GuardState::Broken => {
                    let message = "the request's chunks cannot be read in one way only";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
                }
                // Nothing to scan: the bytes go straight into the reader's buffer.
                GuardState::Free => return Pin::new(&mut this.stream).poll_read(cx, into),
                GuardState::Length(left) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX).min(into.remaining());
                    let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
                    ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
                    let length = part.filled().len();
                    into.advance(length);
                    let left = left - length as u64;
                    this.state = GuardState::Length(left);
                    if left == 0 {
                        this.scan_step();
                    }
                    return Poll::Ready(Ok(()));
                }
                GuardState::Head { .. } | GuardState::Chunked(_) => {}
            }
            this.unchecked.reserve(8 * 1024);
            let began = this.unchecked.is_empty();
            let length = {
                let mut buffer = [0; 8 * 1024];
                let mut part = ReadBuf::new(&mut buffer);
                let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part)?;
                if polled.is_pending() {
                    if !this.poll_timeout(cx) {
                        return Poll::Pending;
                    }
                    this.state = GuardState::Ended;
                    return Poll::Ready(Ok(()));
                }
                this.unchecked.put_slice(part.filled());
                part.filled().len()
            };
            if length == 0 {
                // An unfinished head is not a request.
                this.state = GuardState::Ended;
                return Poll::Ready(Ok(()));
            }
            if began && matches!(this.state, GuardState::Head { .. }) && this.heads > 0 {
                this.timer.as_mut().reset(Instant::now() + HEAD_TIMEOUT);
            }
            this.scan();
        }
    }
}

writes_through!(HeadGuard, stream);

#[cfg(test)]
mod tests;
