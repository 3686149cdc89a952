//! The program's calls as the child sees them: numbered in the order they were made, sent as the host can take them.

use std::collections::VecDeque;

use ringfence_wire::{
    self as wire, Answer, Ask, Bodies, Body, Call, FromChild, Letters, OutOfTurn, Outbound, Refusal, Return, SendError,
    Stream,
};

/// The result of a call as JSON text, or why there is none.
pub type Answered = Result<String, Refusal>;

/// The calls of one execution.
#[derive(Debug)]
pub(crate) struct Calls {
    made: u32,
    /// Calls that wait until fewer are unanswered.
    waiting: VecDeque<(Ask, Body, Vec<u8>)>,
    turn: wire::Calls,
    letters: Letters<FromChild>,
    bodies: Bodies<u32>,
    answers: VecDeque<(u32, Answered)>,
    /// Calls whose answers the program has not got.
    open: usize,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls {
            made: 0,
            waiting: VecDeque::new(),
            turn: wire::Calls::default(),
            letters: Letters::new(Stream::Asked),
            bodies: Bodies::new(),
            answers: VecDeque::new(),
            open: 0,
        }
    }

    /// Makes a call; its number, or nothing if its arguments are longer than may be sent.
    pub(crate) fn make(&mut self, ask: Ask, body: String) -> Option<u32> {
        let (body, rest) = Body::of(body).ok()?;
        let number = self.made.checked_add(1)?;
        self.made = number;
        self.open += 1;
        self.waiting.push_back((ask, body, rest));
        Some(number)
    }

    /// Whether the program waits for an answer.
    pub(crate) fn are_open(&self) -> bool {
        self.open > 0
    }

    /// Calls that were made and are not on their way.
    pub(crate) fn unsent(&self) -> usize {
        self.waiting.len() + self.letters.len()
    }

    /// The next answer that is there.
    pub(crate) fn take_answer(&mut self) -> Option<(u32, Answered)> {
        let answer = self.answers.pop_front()?;
        self.open = self.open.saturating_sub(1);
        Some(answer)
    }

    /// Queues what the host can take.
    pub(crate) fn pump(&mut self, outbound: &mut Outbound) -> Result<(), SendError> {
        while self.letters.is_empty() && !self.waiting.is_empty() {
            let Some(number) = self.turn.number() else { break };
            if let Some((ask, body, rest)) = self.waiting.pop_front() {
                self.letters.push(FromChild::Call(Call { number, ask, body }), rest);
            }
            self.letters.pump(outbound)?;
        }
        self.letters.pump(outbound)
    }

    /// The host answered.
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

    /// Bytes of long answers came.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), OutOfTurn> {
        let answers = &mut self.answers;
        self.bodies.take(bytes, |number, body| {
            let text =
                String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            answers.push_back((number, Ok(text)));
        })
    }

    /// The program is over: what was not sent never will be.
    pub(crate) fn abandon(&mut self) {
        self.waiting.clear();
        self.letters = Letters::new(Stream::Asked);
    }
}
