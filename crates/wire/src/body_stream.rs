//! Transfer of long bodies: they share one stream, one after the other, and a message announces each before its bytes.

use std::collections::VecDeque;

use crate::codec::ControlMessage;
use crate::outbound::{Outbound, OutboundError};
use crate::state::ProtocolViolation;
use crate::stream::PipeStream;

/// Assembles announced bodies from the bytes of their stream.
#[derive(Debug)]
pub struct BodyReceiver<T> {
    announced: VecDeque<(T, usize)>,
    held: Vec<u8>,
}

impl<T> BodyReceiver<T> {
    /// A receiver without announced bodies.
    pub fn new() -> Self {
        Self {
            announced: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Expects a body of `bytes` bytes, at least one, and returns it as `what`'s once it is complete.
    pub fn announce(&mut self, what: T, bytes: u32) {
        debug_assert!(bytes > 0, "an empty body needs no stream");
        self.announced.push_back((what, bytes as usize));
    }

    /// Takes bytes of the stream and passes each complete body to `done`, in the order of the announcements.
    pub fn receive(&mut self, mut bytes: &[u8], mut done: impl FnMut(T, Vec<u8>)) -> Result<(), ProtocolViolation> {
        while !bytes.is_empty() {
            let Some((_, length)) = self.announced.front() else {
                return Err(ProtocolViolation::Body { bytes: bytes.len() });
            };
            let missing = length.saturating_sub(self.held.len()).min(bytes.len());
            let (now, later) = bytes.split_at(missing);
            self.held.extend_from_slice(now);
            bytes = later;
            if self.held.len() >= *length
                && let Some((what, _)) = self.announced.pop_front()
            {
                done(what, std::mem::take(&mut self.held));
            }
        }
        Ok(())
    }

    /// Bytes received of the body that is not complete yet.
    pub fn buffered_bytes(&self) -> usize {
        self.held.len()
    }
}

impl<T> Default for BodyReceiver<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Sends messages and the bodies they announce, as far as the pipe has capacity.
#[derive(Debug)]
pub struct BodySender<M> {
    stream: PipeStream,
    waiting: VecDeque<(M, Vec<u8>)>,
    body: Vec<u8>,
    sent: usize,
    /// Bytes of all bodies that are queued or partly sent.
    bytes: usize,
}

impl<M: ControlMessage> BodySender<M> {
    /// A sender without queued messages, which puts long bodies on `stream`.
    pub fn new(stream: PipeStream) -> Self {
        Self {
            stream,
            waiting: VecDeque::new(),
            body: Vec::new(),
            sent: 0,
            bytes: 0,
        }
    }

    /// Queues a message and the `body` that it announces, or an empty one if it announces none.
    pub fn push(&mut self, message: M, body: Vec<u8>) {
        self.bytes += body.len();
        self.waiting.push_back((message, body));
    }

    /// Moves queued messages and body bytes to `outbound` until it is full.
    pub fn send_some(&mut self, outbound: &mut Outbound) -> Result<(), OutboundError> {
        loop {
            if self.sent < self.body.len() {
                self.sent += outbound.queue_data(self.stream, &self.body[self.sent..])?;
                if self.sent < self.body.len() {
                    return Ok(());
                }
                self.bytes -= self.body.len();
                self.body = Vec::new();
                self.sent = 0;
            }
            if !outbound.can_queue_message() {
                return Ok(());
            }
            let Some((message, body)) = self.waiting.pop_front() else {
                return Ok(());
            };
            outbound.queue_message(&message)?;
            self.body = body;
        }
    }

    /// The queued messages that were not sent, without their bodies.
    pub fn into_unsent(self) -> impl Iterator<Item = M> {
        self.waiting.into_iter().map(|(message, _)| message)
    }

    /// How many messages are queued, plus one for a body that is partly sent.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(!self.body.is_empty())
    }

    /// Bytes of all bodies that are queued or partly sent.
    pub fn queued_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no message is queued and no body is partly sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
