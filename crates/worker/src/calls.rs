//! The program's calls on the child's side: they are numbered in the order in which they are made, and sent as the host
//! can take them, each with the trace that led to it.

use std::collections::VecDeque;

use ringfence_wire::{
    self as wire, Answer, Ask, Bodies, Body, Bytes, Call, Emit, FromChild, Letters, OutOfTurn, Outbound, Refusal,
    Return, SendError, Stream, TRACE_CAP, TRACE_INLINE, TRACE_PIECE, Text,
};

/// The result of a call as JSON text, or its failure.
pub type Answered = Result<String, Refusal>;

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct Calls {
    made: u32,
    /// Calls that wait until fewer calls are open, and the messages between them.
    waiting: VecDeque<Waiting>,
    trace: Trace,
    turn: wire::Calls,
    letters: Letters<FromChild>,
    bodies: Bodies<u32>,
    answers: VecDeque<(u32, Answered)>,
}

#[derive(Debug)]
enum Waiting {
    Call {
        ask: Ask,
        body: Body,
        rest: Vec<u8>,
        trace: Vec<u8>,
    },
    Unrepeatable(Text<256>),
}

/// Trace that is recorded and not yet sent.
#[derive(Debug, Default)]
struct Trace {
    held: Vec<u8>,
    /// The length of the whole trace, the given part included.
    bytes: u64,
    given_up: bool,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls {
            made: 0,
            waiting: VecDeque::new(),
            trace: Trace::default(),
            turn: wire::Calls::default(),
            letters: Letters::new(Stream::Asked),
            bodies: Bodies::new(),
            answers: VecDeque::new(),
        }
    }

    /// Makes a call. Returns its number, or `None` if its arguments are longer than may be sent.
    pub(crate) fn make(&mut self, ask: Ask, body: String) -> Option<u32> {
        let (body, rest) = Body::of(body).ok()?;
        let number = self.made.checked_add(1)?;
        self.made = number;
        let trace = std::mem::take(&mut self.trace.held);
        self.waiting.push_back(Waiting::Call { ask, body, rest, trace });
        Some(number)
    }

    /// Counts the trace that the host gave for this run.
    pub(crate) fn was_given(&mut self, bytes: u64) {
        self.trace.bytes = bytes;
    }

    /// Records more trace, which goes with the next call, before a reported wait, or at the end. Trace beyond the
    /// maximum marks the execution as unrepeatable.
    pub(crate) fn trace(&mut self, bytes: &[u8]) {
        if self.trace.given_up || bytes.is_empty() {
            return;
        }
        let total = self.trace.bytes + bytes.len() as u64;
        if total > TRACE_CAP {
            return self.give_up("it read its clock and waited so often that the record is longer than 4 MiB");
        }
        self.trace.bytes = total;
        self.trace.held.extend_from_slice(bytes);
    }

    /// Marks the execution as unrepeatable. Only the first call has an effect.
    pub(crate) fn give_up(&mut self, why: &str) {
        if !std::mem::replace(&mut self.trace.given_up, true) {
            self.trace.held = Vec::new();
            self.waiting.push_back(Waiting::Unrepeatable(Text::cut(why)));
        }
    }

    /// Queues the message that a file is to go out.
    pub(crate) fn emit(&mut self, emit: Emit) {
        self.letters.push(FromChild::Emit(emit), Vec::new());
    }

    /// How many calls the host has not answered.
    pub(crate) fn unanswered(&self) -> u32 {
        u32::try_from(self.turn.unanswered()).unwrap_or(u32::MAX)
    }

    /// Queues the unsent trace after the calls.
    pub(crate) fn send_trace(&mut self) {
        let trace = std::mem::take(&mut self.trace.held);
        self.put_pieces(&trace, 0);
    }

    /// Queues messages with `trace` until at most `most` bytes are left, and returns those.
    fn put_pieces<'a>(&mut self, mut trace: &'a [u8], most: usize) -> &'a [u8] {
        while trace.len() > most {
            let (piece, rest) = trace.split_at(trace.len().min(TRACE_PIECE));
            // A piece is never longer than its bound, so this cannot fail.
            let piece = Bytes::new(piece.to_vec()).unwrap_or_default();
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
    pub(crate) fn take_answer(&mut self) -> Option<(u32, Answered)> {
        self.answers.pop_front()
    }

    /// Moves queued messages to `outbound` as far as the host can take them.
    pub(crate) fn pump(&mut self, outbound: &mut Outbound) -> Result<(), SendError> {
        while self.letters.is_empty() && !self.waiting.is_empty() {
            if matches!(self.waiting.front(), Some(Waiting::Call { .. })) && !self.turn.has_room() {
                break;
            }
            match self.waiting.pop_front() {
                Some(Waiting::Call { ask, body, rest, trace }) => {
                    let Some(number) = self.turn.number() else { break };
                    let trace = Bytes::new(self.put_pieces(&trace, TRACE_INLINE).to_vec()).unwrap_or_default();
                    let call = Call {
                        number,
                        ask,
                        body,
                        trace,
                    };
                    self.letters.push(FromChild::Call(call), rest);
                }
                Some(Waiting::Unrepeatable(why)) => self.letters.push(FromChild::Unrepeatable { why }, Vec::new()),
                None => break,
            }
            self.letters.pump(outbound)?;
        }
        self.letters.pump(outbound)
    }

    /// Handles a response of the host: an answer, or the announcement of a long one.
    pub(crate) fn hear(&mut self, returned: Return) -> Result<(), OutOfTurn> {
        let Return { number, answer } = returned;
        self.turn.answer(number)?;
        match answer {
            Answer::Result(Body::Inline(text)) => self.answers.push_back((number, Ok(text.into_string()))),
            Answer::Result(Body::Streamed { bytes }) => self.bodies.announce(number, bytes),
            Answer::Refused(refusal) => self.answers.push_back((number, Err(refusal))),
        }
        Ok(())
    }

    /// Takes bytes of long answers.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), OutOfTurn> {
        let answers = &mut self.answers;
        self.bodies.take(bytes, |number, body| {
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
        let letters = std::mem::replace(&mut self.letters, Letters::new(Stream::Asked));
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
                Waiting::Call { trace, .. } => last.extend(trace),
                Waiting::Unrepeatable(why) => given_up = Some(why),
            }
        }
        for emit in emitted {
            self.emit(emit);
        }
        last.append(&mut self.trace.held);
        self.put_pieces(&last, 0);
        if let Some(why) = given_up {
            self.letters.push(FromChild::Unrepeatable { why }, Vec::new());
        }
    }
}
