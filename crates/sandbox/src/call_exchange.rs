//! Moves calls and replies between an execution's pipe and its call port: calls wait here while the port is full, and calls
//! are refused when the handler is gone.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc::error::{TryRecvError, TrySendError};

use crate::call_port::{CallPort, ToolCall, ToolRefusal, ToolReply};
use crate::pipe::HostPipe;

/// The pipe is not read while this many calls wait for the port.
const MAX_WAITING_CALLS: usize = 64;
/// The pipe is not read while the bodies of unanswered calls exceed this many bytes.
const MAX_HELD_BYTES: usize = 16 << 20;
/// How many replies are forwarded in one turn.
const MAX_REPLIES_PER_TURN: usize = 64;

/// The open calls of one execution.
#[derive(Debug)]
pub(crate) struct CallExchange {
    door: Option<CallPort>,
    /// Makes the refusal of a call that no handler takes.
    closed: fn() -> ToolRefusal,
    waiting: VecDeque<ToolCall>,
    /// Calls that went through the port and have no reply yet, with the size of their bodies.
    unanswered: BTreeMap<u32, usize>,
    held: usize,
}

/// What happened at the call port.
#[derive(Debug)]
pub(crate) enum ExchangeEvent {
    /// The handler's channel took the call that waited longest: its number and the size of its body.
    CallSent(u32, usize),
    /// A reply to a call arrived from the handler.
    Answer(ToolReply),
    /// The handler takes no more calls.
    CallsClosed,
    /// The handler sends no more replies.
    RepliesClosed,
}

impl CallExchange {
    pub(crate) fn new(door: Option<CallPort>) -> CallExchange {
        let closed = if door.is_some() {
            port_closed_refusal
        } else {
            no_port_refusal
        };
        CallExchange {
            door,
            closed,
            waiting: VecDeque::new(),
            unanswered: BTreeMap::new(),
            held: 0,
        }
    }

    pub(crate) fn queue_call(&mut self, asked: ToolCall) {
        self.held += asked.body.len();
        self.waiting.push_back(asked);
    }

    /// Whether the pipe should not be read until a reply arrives.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING_CALLS || self.held > MAX_HELD_BYTES
    }

    /// Whether the program waits for the handler.
    pub(crate) fn is_pending(&self) -> bool {
        !self.unanswered.is_empty() || !self.waiting.is_empty()
    }

    /// Whether exactly `count` calls are with the handler and no call or reply is in transit.
    pub(crate) fn only_waits_for(&self, count: usize) -> bool {
        let answers = self.door.as_ref().is_none_or(|door| door.replies.is_empty());
        answers && self.waiting.is_empty() && self.unanswered.len() == count
    }

    /// The numbers of the calls that went through the port and have no reply.
    pub(crate) fn into_unanswered(self) -> Vec<u32> {
        self.unanswered.into_keys().collect()
    }

    /// Sends waiting calls until the port is full.
    pub(crate) fn send_waiting(&mut self, pipe: &mut HostPipe) {
        while let Some(asked) = self.waiting.pop_front() {
            let (number, bytes) = (asked.number, asked.body.len());
            let sent = match &self.door {
                Some(door) => door.calls.try_send(asked),
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

    /// Whether [`Self::next_event`] has an event to wait for.
    pub(crate) fn has_pending_events(&self, pipe: &HostPipe) -> bool {
        self.door.is_some() && (!self.waiting.is_empty() || (!self.unanswered.is_empty() && pipe.can_take_replies()))
    }

    /// The next event at the port. The future can be dropped at any time without loss.
    pub(crate) async fn next_event(&mut self, pipe: &HostPipe) -> ExchangeEvent {
        let Some(door) = &mut self.door else {
            return std::future::pending().await;
        };
        let takes_answers = !self.unanswered.is_empty() && pipe.can_take_replies();
        tokio::select! {
            biased;
            answered = door.replies.recv(), if takes_answers => answered.map_or(ExchangeEvent::RepliesClosed, ExchangeEvent::Answer),
            permit = door.calls.reserve(), if !self.waiting.is_empty() => match (permit, self.waiting.pop_front()) {
                (Ok(permit), Some(asked)) => {
                    let event = ExchangeEvent::CallSent(asked.number, asked.body.len());
                    permit.send(asked);
                    event
                }
                (Ok(_), None) => ExchangeEvent::CallsClosed,
                (Err(_), asked) => {
                    self.waiting.extend(asked);
                    ExchangeEvent::CallsClosed
                }
            },
            else => std::future::pending().await,
        }
    }

    /// Updates the open calls after an event, and sends replies and refusals to the pipe.
    pub(crate) fn handle_event(&mut self, event: ExchangeEvent, pipe: &mut HostPipe) {
        match event {
            ExchangeEvent::CallSent(number, bytes) => {
                self.unanswered.insert(number, bytes);
            }
            ExchangeEvent::CallsClosed => {
                for asked in std::mem::take(&mut self.waiting) {
                    self.held -= asked.body.len();
                    self.refuse(asked.number, pipe);
                }
            }
            ExchangeEvent::RepliesClosed => self.refuse_all(pipe),
            ExchangeEvent::Answer(answered) => {
                self.forward_reply(answered, pipe);
                for _ in 1..MAX_REPLIES_PER_TURN {
                    if !pipe.can_take_replies() {
                        return;
                    }
                    match self.door.as_mut().map(|door| door.replies.try_recv()) {
                        Some(Ok(answered)) => self.forward_reply(answered, pipe),
                        Some(Err(TryRecvError::Empty)) | None => return,
                        Some(Err(TryRecvError::Disconnected)) => return self.refuse_all(pipe),
                    }
                }
            }
        }
    }

    fn forward_reply(&mut self, answered: ToolReply, pipe: &mut HostPipe) {
        if let Some(bytes) = self.unanswered.remove(&answered.number) {
            self.held -= bytes;
            pipe.queue_reply(answered);
        } else {
            tracing::warn!(number = answered.number, "an answer to no call");
        }
    }

    /// Refuses all open calls, because the handler sends no more replies.
    fn refuse_all(&mut self, pipe: &mut HostPipe) {
        self.door = None;
        for (number, bytes) in std::mem::take(&mut self.unanswered) {
            self.held -= bytes;
            self.refuse(number, pipe);
        }
        self.send_waiting(pipe);
    }

    fn refuse(&self, number: u32, pipe: &mut HostPipe) {
        let answer = Err((self.closed)());
        pipe.queue_reply(ToolReply { number, answer });
    }
}

fn no_port_refusal() -> ToolRefusal {
    ToolRefusal {
        code: "tools.none".to_owned(),
        message: "there are no tools here".to_owned(),
        rule: None,
        hint: Some("tool servers are named in `ringfence.yaml`".to_owned()),
        retry_after_ms: None,
    }
}

fn port_closed_refusal() -> ToolRefusal {
    ToolRefusal {
        code: "tools.gone".to_owned(),
        message: "nobody answers calls any more".to_owned(),
        rule: None,
        hint: None,
        retry_after_ms: None,
    }
}
