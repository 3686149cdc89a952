//! Moves calls and replies between an execution's pipe and its call port: calls wait here while the port is full, and calls
//! are refused when the handler is gone.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc::error::{TryRecvError, TrySendError};

use crate::door::{Answered, Asked, Door, Refusal};
use crate::pipe::Pipe;

/// The pipe is not read while this many calls wait for the port.
const WAITING: usize = 64;
/// The pipe is not read while the bodies of unanswered calls exceed this many bytes.
const HELD_BYTES: usize = 16 << 20;
/// How many replies are forwarded in one turn.
const ANSWERS_AT_ONCE: usize = 64;

/// The open calls of one execution.
#[derive(Debug)]
pub(crate) struct Exchange {
    door: Option<Door>,
    /// Makes the refusal of a call that no handler takes.
    closed: fn() -> Refusal,
    waiting: VecDeque<Asked>,
    /// Calls that went through the port and have no reply yet, with the size of their bodies.
    unanswered: BTreeMap<u32, usize>,
    held: usize,
}

/// What happened at the call port.
#[derive(Debug)]
pub(crate) enum Event {
    /// The handler's channel took the call that waited longest: its number and the size of its body.
    Room(u32, usize),
    /// A reply to a call arrived from the handler.
    Answer(Answered),
    /// The handler takes no more calls.
    Deaf,
    /// The handler sends no more replies.
    Mute,
}

impl Exchange {
    pub(crate) fn new(door: Option<Door>) -> Exchange {
        let closed = if door.is_some() { gone } else { none };
        Exchange {
            door,
            closed,
            waiting: VecDeque::new(),
            unanswered: BTreeMap::new(),
            held: 0,
        }
    }

    pub(crate) fn take(&mut self, asked: Asked) {
        self.held += asked.body.len();
        self.waiting.push_back(asked);
    }

    /// Whether the pipe should not be read until a reply arrives.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING || self.held > HELD_BYTES
    }

    /// Whether the program waits for the handler.
    pub(crate) fn is_pending(&self) -> bool {
        !self.unanswered.is_empty() || !self.waiting.is_empty()
    }

    /// Whether exactly `count` calls are with the handler and no call or reply is in transit.
    pub(crate) fn only_waits_for(&self, count: usize) -> bool {
        let answers = self.door.as_ref().is_none_or(|door| door.answers.is_empty());
        answers && self.waiting.is_empty() && self.unanswered.len() == count
    }

    /// The numbers of the calls that went through the port and have no reply.
    pub(crate) fn into_unanswered(self) -> Vec<u32> {
        self.unanswered.into_keys().collect()
    }

    /// Sends waiting calls until the port is full.
    pub(crate) fn hand_over(&mut self, pipe: &mut Pipe) {
        while let Some(asked) = self.waiting.pop_front() {
            let (number, bytes) = (asked.number, asked.body.len());
            let sent = match &self.door {
                Some(door) => door.asked.try_send(asked),
                None => Err(TrySendError::Closed(asked)),
            };
            match sent {
                Ok(()) => {
                    self.unanswered.insert(number, bytes);
                }
                Err(TrySendError::Full(asked)) => {
                    self.waiting.push_front(asked);
                    return;
                }
                Err(TrySendError::Closed(_)) => {
                    self.held -= bytes;
                    self.refuse(number, pipe);
                }
            }
        }
    }

    /// Whether [`Self::next`] has an event to wait for.
    pub(crate) fn expects(&self, pipe: &Pipe) -> bool {
        self.door.is_some() && (!self.waiting.is_empty() || (!self.unanswered.is_empty() && pipe.takes_answers()))
    }

    /// The next event at the port. The future can be dropped at any time without loss.
    pub(crate) async fn next(&mut self, pipe: &Pipe) -> Event {
        let Some(door) = &mut self.door else {
            return std::future::pending().await;
        };
        let takes_answers = !self.unanswered.is_empty() && pipe.takes_answers();
        tokio::select! {
            biased;
            answered = door.answers.recv(), if takes_answers => answered.map_or(Event::Mute, Event::Answer),
            permit = door.asked.reserve(), if !self.waiting.is_empty() => match (permit, self.waiting.pop_front()) {
                (Ok(permit), Some(asked)) => {
                    let event = Event::Room(asked.number, asked.body.len());
                    permit.send(asked);
                    event
                }
                (Ok(_), None) => Event::Deaf,
                (Err(_), asked) => {
                    self.waiting.extend(asked);
                    Event::Deaf
                }
            },
            else => std::future::pending().await,
        }
    }

    /// Updates the open calls after an event, and sends replies and refusals to the pipe.
    pub(crate) fn act(&mut self, event: Event, pipe: &mut Pipe) {
        match event {
            Event::Room(number, bytes) => {
                self.unanswered.insert(number, bytes);
            }
            Event::Deaf => {
                for asked in std::mem::take(&mut self.waiting) {
                    self.held -= asked.body.len();
                    self.refuse(asked.number, pipe);
                }
            }
            Event::Mute => self.close(pipe),
            Event::Answer(answered) => {
                self.pass_on(answered, pipe);
                for _ in 1..ANSWERS_AT_ONCE {
                    if !pipe.takes_answers() {
                        return;
                    }
                    match self.door.as_mut().map(|door| door.answers.try_recv()) {
                        Some(Ok(answered)) => self.pass_on(answered, pipe),
                        Some(Err(TryRecvError::Empty)) | None => return,
                        Some(Err(TryRecvError::Disconnected)) => return self.close(pipe),
                    }
                }
            }
        }
    }

    fn pass_on(&mut self, answered: Answered, pipe: &mut Pipe) {
        if let Some(bytes) = self.unanswered.remove(&answered.number) {
            self.held -= bytes;
            pipe.answer(answered);
        } else {
            tracing::warn!(number = answered.number, "an answer to no call");
        }
    }

    /// Refuses all open calls, because the handler sends no more replies.
    fn close(&mut self, pipe: &mut Pipe) {
        self.door = None;
        for (number, bytes) in std::mem::take(&mut self.unanswered) {
            self.held -= bytes;
            self.refuse(number, pipe);
        }
        self.hand_over(pipe);
    }

    fn refuse(&self, number: u32, pipe: &mut Pipe) {
        let answer = Err((self.closed)());
        pipe.answer(Answered { number, answer });
    }
}

fn none() -> Refusal {
    Refusal {
        code: "tools.none".to_owned(),
        message: "there are no tools here".to_owned(),
        rule: None,
        hint: Some("tool servers are named in `ringfence.yaml`".to_owned()),
        retry_after_ms: None,
    }
}

fn gone() -> Refusal {
    Refusal {
        code: "tools.gone".to_owned(),
        message: "nobody answers calls any more".to_owned(),
        rule: None,
        hint: None,
        retry_after_ms: None,
    }
}
