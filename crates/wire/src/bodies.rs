//! Long bodies on their way: one after the other on one stream, each announced by a message that goes before it.

use std::collections::VecDeque;

use crate::codec::Message;
use crate::outbound::{Outbound, SendError};
use crate::stream::Stream;
use crate::turn::OutOfTurn;

/// The receiving half: bytes of a stream, put together as they were announced.
#[derive(Debug)]
pub struct Bodies<T> {
    announced: VecDeque<(T, usize)>,
    held: Vec<u8>,
}

impl<T> Bodies<T> {
    /// None announced.
    pub fn new() -> Self {
        Self {
            announced: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// A message said that so many bytes will come for `what`; at least one.
    pub fn announce(&mut self, what: T, bytes: u32) {
        debug_assert!(bytes > 0, "an empty body needs no stream");
        self.announced.push_back((what, bytes as usize));
    }

    /// Takes what came, and hands every body that is complete to `done`.
    pub fn take(&mut self, mut bytes: &[u8], mut done: impl FnMut(T, Vec<u8>)) -> Result<(), OutOfTurn> {
        while !bytes.is_empty() {
            let Some((_, length)) = self.announced.front() else {
                return Err(OutOfTurn::Body { bytes: bytes.len() });
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

    /// Bytes of the body that is not yet complete.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

impl<T> Default for Bodies<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The sending half: messages, some with a body behind them, that go as the pipe has room.
#[derive(Debug)]
pub struct Letters<M> {
    stream: Stream,
    waiting: VecDeque<(M, Vec<u8>)>,
    body: Vec<u8>,
    sent: usize,
    /// Bytes of all bodies that are not wholly on their way.
    bytes: usize,
}

impl<M: Message> Letters<M> {
    /// None waits; long bodies will go on `stream`.
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            waiting: VecDeque::new(),
            body: Vec::new(),
            sent: 0,
            bytes: 0,
        }
    }

    /// Puts one at the end; `body` is what its message announces, or empty.
    pub fn push(&mut self, message: M, body: Vec<u8>) {
        self.bytes += body.len();
        self.waiting.push_back((message, body));
    }

    /// Moves as much as there is room for.
    pub fn pump(&mut self, outbound: &mut Outbound) -> Result<(), SendError> {
        loop {
            if self.sent < self.body.len() {
                self.sent += outbound.data(self.stream, &self.body[self.sent..])?;
                if self.sent < self.body.len() {
                    return Ok(());
                }
                self.bytes -= self.body.len();
                self.body = Vec::new();
                self.sent = 0;
            }
            if !outbound.takes_control() {
                return Ok(());
            }
            let Some((message, body)) = self.waiting.pop_front() else {
                return Ok(());
            };
            outbound.control(&message)?;
            self.body = body;
        }
    }

    /// The messages that were not sent.
    pub fn into_unsent(self) -> impl Iterator<Item = M> {
        self.waiting.into_iter().map(|(message, _)| message)
    }

    /// How many messages wait, and bodies that are not wholly on their way.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(!self.body.is_empty())
    }

    /// Bytes of the bodies that are not wholly on their way.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
