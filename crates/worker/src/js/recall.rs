//! Records and replays what reaches a program besides its answers: the values of its clock, and which answer or timer
//! ended each wait.
//!
//! The record, in the order of the program, is the trace. In a run with a trace the same values reach the program
//! again, without waiting. Where the trace ends, the program continues with the real clock. Once a trace does not match
//! what the program does, the rest of it is not used.
use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{Again, Answered};

/// One tick of a program's clock.
const TICK: Duration = Duration::from_micros(TICK_MICROS);
const TICK_MICROS: u64 = 100;
/// Longer than any timer.
const LONG: Duration = Duration::from_hours(24 * 30);
/// The recorded trace is handed on when it has this many bytes.
const MUCH: usize = 4096;

const TIME: u8 = 0;
const ANSWER: u8 = 1;
const TIMER: u8 = 2;

/// What ended a wait with open calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The answer to the call with this number.
    Answer(u32),
    /// The next timer fired.
    Timer,
}

/// The program does something other than the trace says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Diverged;

/// The program's clock, the trace to replay, and the trace being recorded.
#[derive(Debug)]
pub(super) struct Recall {
    start: u64,
    /// The clock value that the program last saw.
    last: u64,
    /// The real clock, as one clock value and the moment it belongs to.
    base: (u64, Instant),
    given: VecDeque<u8>,
    /// How many more times the program is to read `last`.
    again: u64,
    recorded: Vec<u8>,
    /// A value that was read and is not recorded yet: its distance from the previous value, and how often it was read again.
    run: Option<(u64, u64)>,
    made: u32,
    open: BTreeSet<u32>,
    /// Answers that arrived before their turn.
    pub(super) early: VecDeque<(u32, Answered)>,
    diverged: bool,
}

impl Recall {
    pub(super) fn new(again: &Again<'_>) -> Recall {
        Recall {
            start: again.clock,
            last: again.clock,
            base: (again.clock, Instant::now()),
            given: again.trace.iter().copied().collect(),
            again: 0,
            recorded: Vec::new(),
            run: None,
            made: 0,
            open: BTreeSet::new(),
            early: VecDeque::new(),
            diverged: false,
        }
    }

    /// Whether the whole given trace has reached the program.
    pub(super) fn is_live(&self) -> bool {
        self.given.is_empty() && self.again == 0
    }

    /// Whether the program has done something other than the trace says.
    pub(super) fn has_diverged(&self) -> bool {
        self.diverged
    }

    /// Records that the program has diverged from its trace.
    pub(super) fn diverge(&mut self) -> Diverged {
        self.diverged = true;
        Diverged
    }

    /// How many calls the program has made.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// The clock value at the start of the program.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Reads the program's clock with a resolution of `grain` ticks.
    pub(super) fn read(&mut self, grain: u64) -> u64 {
        if self.is_live() {
            let now = self.now();
            self.note_time(now - now % grain);
        } else if !self.diverged && self.recall_time().is_none() {
            self.diverge();
        }
        self.last
    }

    /// The real clock, which the program does not see.
    pub(super) fn now(&self) -> u64 {
        let (base, since) = self.base;
        base.saturating_add(ticks(since.elapsed()))
    }

    /// The moment at which the clock will be at `due`.
    pub(super) fn moment(&self, due: u64) -> Instant {
        let (base, since) = self.base;
        let wait = Duration::from_micros(due.saturating_sub(base).saturating_mul(TICK_MICROS));
        // The caller checks the clock again if nothing has happened by then.
        since.checked_add(wait).unwrap_or_else(|| since + LONG)
    }

    /// Notes that a timer fires: no later reading is before it.
    pub(super) fn fires(&mut self, due: u64) {
        if self.again > 0 {
            self.diverge();
        }
        self.end_run();
        self.last = self.last.max(due);
    }

    /// Notes that a call was made.
    pub(super) fn calls(&mut self, number: u32) {
        self.made = number;
        self.open.insert(number);
    }

    /// Whether any call is open.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.open.is_empty()
    }

    /// What ended the wait that begins now, according to the trace; `None` if the trace has ended.
    pub(super) fn recall_wait(&mut self) -> Result<Option<Taken>, Diverged> {
        if self.diverged {
            return Err(Diverged);
        }
        if self.is_live() {
            return Ok(None);
        }
        let taken = if self.again > 0 {
            None
        } else {
            match self.given.pop_front() {
                Some(TIMER) => Some(Taken::Timer),
                Some(ANSWER) => self
                    .number()
                    .map(|back| u64::from(self.made).checked_sub(back))
                    .and_then(|number| {
                        let number = u32::try_from(number?).ok()?;
                        self.open.remove(&number).then_some(Taken::Answer(number))
                    }),
                _ => None,
            }
        };
        self.go_live();
        taken.map(Some).ok_or_else(|| self.diverge())
    }

    /// Records what ended a wait.
    pub(super) fn note_wait(&mut self, taken: Taken) {
        self.end_run();
        match taken {
            Taken::Timer => self.recorded.push(TIMER),
            Taken::Answer(number) => {
                self.open.remove(&number);
                self.recorded.push(ANSWER);
                put(&mut self.recorded, u64::from(self.made.saturating_sub(number)));
            }
        }
    }

    /// Whether the recorded trace is long enough to be handed on.
    pub(super) fn is_much(&self) -> bool {
        self.recorded.len() >= MUCH
    }

    /// Takes the trace recorded since the last time.
    pub(super) fn take_recorded(&mut self) -> Vec<u8> {
        self.end_run();
        std::mem::take(&mut self.recorded)
    }

    fn note_time(&mut self, now: u64) {
        match (now.checked_sub(self.last), &mut self.run) {
            (Some(ahead @ 1..), _) => {
                self.end_run();
                self.last = now;
                self.run = Some((ahead, 0));
            }
            (_, Some((_, again))) => *again += 1,
            (_, None) => self.run = Some((0, 0)),
        }
    }

    fn end_run(&mut self) {
        if let Some((ahead, again)) = self.run.take() {
            self.recorded.push(TIME);
            put(&mut self.recorded, ahead);
            put(&mut self.recorded, again);
        }
    }

    fn recall_time(&mut self) -> Option<()> {
        if let Some(again) = self.again.checked_sub(1) {
            self.again = again;
        } else {
            if self.given.pop_front() != Some(TIME) {
                return None;
            }
            let (ahead, again) = (self.number()?, self.number()?);
            self.last = self.last.checked_add(ahead)?;
            self.again = again;
        }
        self.go_live();
        Some(())
    }

    /// Starts the real clock once the trace has ended: at the present time, but not before what the program last saw.
    fn go_live(&mut self) {
        if self.is_live() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.base = (self.last.max(ticks(now)), Instant::now());
        }
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.given.pop_front()?;
            let part = u64::from(byte & 0x7f);
            number |= part.checked_shl(shift).filter(|shifted| shifted >> shift == part)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX)
}

/// Appends a number in groups of seven bits, the lowest group first.
fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests;
