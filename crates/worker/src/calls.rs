//! The program's calls on the child's side: they are numbered in the order in which they are made, and sent as the host
//! can take them, each with the trace that led to it.

use std::collections::VecDeque;

use ringfence_wire::{
    self as wire, BodyReceiver, BodySender, BoundedBytes, BoundedText, CallBody, CallFailure, CallReply, CallRequest,
    CallResponse, CallTarget, EmittedFile, FromChild, MAX_INLINE_TRACE, MAX_TRACE_PIECE, Outbound, OutboundError,
    PipeStream, ProtocolViolation, TRACE_CAP,
};

/// The result of a call as JSON text, or its failure.
pub type CallAnswer = Result<String, CallFailure>;

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct ProgramCalls {
    made: u32,
    /// Calls that wait until fewer calls are open, and the messages between them.
    waiting: VecDeque<QueuedCall>,
    trace: UnsentTrace,
    turn: wire::OpenCalls,
    letters: BodySender<FromChild>,
    bodies: BodyReceiver<u32>,
    answers: VecDeque<(u32, CallAnswer)>,
}

#[derive(Debug)]
enum QueuedCall {
    Call {
        ask: CallTarget,
        body: CallBody,
        rest: Vec<u8>,
        trace: Vec<u8>,
    },
    Unrepeatable(BoundedText<256>),
}

/// Trace that is recorded and not yet sent.
#[derive(Debug, Default)]
struct UnsentTrace {
    unsent: Vec<u8>,
    /// The length of the whole trace, the given part included.
    total: u64,
    is_abandoned: bool,
}

impl ProgramCalls {
    pub(crate) fn new() -> ProgramCalls {
        ProgramCalls {
            made: 0,
            waiting: VecDeque::new(),
            trace: UnsentTrace::default(),
            turn: wire::OpenCalls::default(),
            letters: BodySender::new(PipeStream::CallBodies),
            bodies: BodyReceiver::new(),
            answers: VecDeque::new(),
        }
    }

    /// Makes a call. Returns its number, or `None` if its arguments are longer than may be sent.
    pub(crate) fn make_call(&mut self, ask: CallTarget, body: String) -> Option<u32> {
        let (body, rest) = CallBody::from_text(body).ok()?;
        let number = self.made.checked_add(1)?;
        self.made = number;
        let trace = std::mem::take(&mut self.trace.unsent);
        self.waiting.push_back(QueuedCall::Call { ask, body, rest, trace });
        Some(number)
    }

    /// Counts the trace that the host gave for this run.
    pub(crate) fn note_given_trace(&mut self, bytes: u64) {
        self.trace.total = bytes;
    }

    /// Records more trace, which goes with the next call, before a reported wait, or at the end. Trace beyond the
    /// maximum marks the execution as unrepeatable.
    pub(crate) fn record_trace(&mut self, bytes: &[u8]) {
        if self.trace.is_abandoned || bytes.is_empty() {
            return;
        }
        let total = self.trace.total + bytes.len() as u64;
        if total > TRACE_CAP {
            return self
                .mark_unrepeatable("it read its clock and waited so often that the record is longer than 4 MiB");
        }
        self.trace.total = total;
        self.trace.unsent.extend_from_slice(bytes);
    }

    /// Marks the execution as unrepeatable. Only the first call has an effect.
    pub(crate) fn mark_unrepeatable(&mut self, why: &str) {
        if !std::mem::replace(&mut self.trace.is_abandoned, true) {
            self.trace.unsent = Vec::new();
            self.waiting
                .push_back(QueuedCall::Unrepeatable(BoundedText::truncated(why)));
        }
    }

    /// Queues the message that a file is to go out.
    pub(crate) fn emit(&mut self, emit: EmittedFile) {
        self.letters.push(FromChild::Emit(emit), Vec::new());
    }

    /// How many calls the host has not answered.
    pub(crate) fn unanswered(&self) -> u32 {
        u32::try_from(self.turn.unanswered()).unwrap_or(u32::MAX)
    }

    /// Queues the unsent trace after the calls.
    pub(crate) fn send_trace(&mut self) {
        let trace = std::mem::take(&mut self.trace.unsent);
        self.send_trace_pieces(&trace, 0);
    }

    /// Queues messages with `trace` until at most `most` bytes are left, and returns those.
    fn send_trace_pieces<'a>(&mut self, mut trace: &'a [u8], most: usize) -> &'a [u8] {
        while trace.len() > most {
            let (piece, rest) = trace.split_at(trace.len().min(MAX_TRACE_PIECE));
            // A piece is never longer than its bound, so this cannot fail.
            let piece = BoundedBytes::new(piece.to_vec()).unwrap_or_default();
            self.letters.push(FromChild::Trace(piece), Vec::new());
            trace = rest;
        }
        trace
    }

    /// How many messages are queued: calls, and what goes between them.
    pub(crate) fn unsent(&self) -> usize {
        self.waiting.len() + self.letters.len()
    }

    /// Takes the next answer that has arrived.
    pub(crate) fn take_answer(&mut self) -> Option<(u32, CallAnswer)> {
        self.answers.pop_front()
    }

    /// Moves queued messages to `outbound` as far as the host can take them.
    pub(crate) fn send_queued(&mut self, outbound: &mut Outbound) -> Result<(), OutboundError> {
        while self.letters.is_empty() && !self.waiting.is_empty() {
            if matches!(self.waiting.front(), Some(QueuedCall::Call { .. })) && !self.turn.has_capacity() {
                break;
            }
            match self.waiting.pop_front() {
                Some(QueuedCall::Call { ask, body, rest, trace }) => {
                    let Some(number) = self.turn.next_number() else { break };
                    let trace = BoundedBytes::new(self.send_trace_pieces(&trace, MAX_INLINE_TRACE).to_vec())
                        .unwrap_or_default();
                    let call = CallRequest {
                        number,
                        ask,
                        body,
                        trace,
                    };
                    self.letters.push(FromChild::Call(call), rest);
                }
                Some(QueuedCall::Unrepeatable(why)) => self.letters.push(FromChild::Unrepeatable { why }, Vec::new()),
                None => break,
            }
            self.letters.send_some(outbound)?;
        }
        self.letters.send_some(outbound)
    }

    /// Handles a response of the host: an answer, or the announcement of a long one.
    pub(crate) fn handle_return(&mut self, returned: CallResponse) -> Result<(), ProtocolViolation> {
        let CallResponse { number, answer } = returned;
        self.turn.on_response(number)?;
        match answer {
            CallReply::Result(CallBody::Inline(text)) => self.answers.push_back((number, Ok(text.into_string()))),
            CallReply::Result(CallBody::Streamed { bytes }) => self.bodies.announce(number, bytes),
            CallReply::Refused(refusal) => self.answers.push_back((number, Err(refusal))),
        }
        Ok(())
    }

    /// Takes bytes of long answers.
    pub(crate) fn take_body_bytes(&mut self, bytes: &[u8]) -> Result<(), ProtocolViolation> {
        let answers = &mut self.answers;
        self.bodies.receive(bytes, |number, body| {
            let text =
                String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            answers.push_back((number, Ok(text)));
        })
    }

    /// Drops the calls that were not sent, once the program is over. All of its trace and its emitted files still go.
    pub(crate) fn abandon(&mut self) {
        let mut last = Vec::new();
        let mut emitted = Vec::new();
        let mut given_up = None;
        let letters = std::mem::replace(&mut self.letters, BodySender::new(PipeStream::CallBodies));
        for message in letters.into_unsent() {
            match message {
                FromChild::Trace(piece) => last.extend_from_slice(&piece),
                FromChild::Call(call) => last.extend_from_slice(&call.trace),
                FromChild::Unrepeatable { why } => given_up = Some(why),
                FromChild::Emit(emit) => emitted.push(emit),
                FromChild::Ready
                | FromChild::Started
                | FromChild::Done(_)
                | FromChild::Open { .. }
                | FromChild::Waits { .. } => {}
            }
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                QueuedCall::Call { trace, .. } => last.extend(trace),
                QueuedCall::Unrepeatable(why) => given_up = Some(why),
            }
        }
        for emit in emitted {
            self.emit(emit);
        }
        last.append(&mut self.trace.unsent);
        self.send_trace_pieces(&last, 0);
        if let Some(why) = given_up {
            self.letters.push(FromChild::Unrepeatable { why }, Vec::new());
        }
    }
}
