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

use super::{CallAnswer, ReplayInput};

/// One tick of a program's clock.
const TICK_DURATION: Duration = Duration::from_micros(TICK_MICROS);
const TICK_MICROS: u64 = 100;
/// Longer than any timer.
const MAX_TIMER: Duration = Duration::from_hours(24 * 30);
/// The recorded trace is handed on when it has this many bytes.
const TRACE_CHUNK_BYTES: usize = 4096;

const TIME: u8 = 0;
const ANSWER: u8 = 1;
const TIMER: u8 = 2;

/// What ended a wait with open calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The answer to the call with this number.
    Answer(u32),
    /// The next timer fired.
    Timer,
}

/// The program does something other than the trace says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplayDiverged;

/// The program's clock, the trace to replay, and the trace being recorded.
#[derive(Debug)]
pub(super) struct ReplayLog {
    start: u64,
    /// The clock value that the program last saw.
    last: u64,
    /// The real clock, as one clock value and the moment it belongs to.
    base: (u64, Instant),
    given: VecDeque<u8>,
    /// How many more times the program is to read `last`.
    repeats_left: u64,
    recorded: Vec<u8>,
    /// A value that was read and is not recorded yet: its distance from the previous value, and how often it was read again.
    pending_repeats: Option<(u64, u64)>,
    calls_made: u32,
    open_calls: BTreeSet<u32>,
    /// Answers that arrived before their turn.
    pub(super) early_answers: VecDeque<(u32, CallAnswer)>,
    diverged: bool,
}

impl ReplayLog {
    pub(super) fn new(again: &ReplayInput<'_>) -> ReplayLog {
        ReplayLog {
            start: again.clock,
            last: again.clock,
            base: (again.clock, Instant::now()),
            given: again.trace.iter().copied().collect(),
            repeats_left: 0,
            recorded: Vec::new(),
            pending_repeats: None,
            calls_made: 0,
            open_calls: BTreeSet::new(),
            early_answers: VecDeque::new(),
            diverged: false,
        }
    }

    /// Whether the whole given trace has reached the program.
    pub(super) fn is_live(&self) -> bool {
        self.given.is_empty() && self.repeats_left == 0
    }

    /// Whether the program has done something other than the trace says.
    pub(super) fn has_diverged(&self) -> bool {
        self.diverged
    }

    /// Records that the program has diverged from its trace.
    pub(super) fn mark_diverged(&mut self) -> ReplayDiverged {
        self.diverged = true;
        ReplayDiverged
    }

    /// How many calls the program has made.
    pub(super) fn calls_made(&self) -> u32 {
        self.calls_made
    }

    /// The clock value at the start of the program.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Reads the program's clock with a resolution of `grain` ticks.
    pub(super) fn read_clock(&mut self, grain: u64) -> u64 {
        if self.is_live() {
            let now = self.now();
            self.note_time(now - now % grain);
        } else if !self.diverged && self.recall_time().is_none() {
            self.mark_diverged();
        }
        self.last
    }

    /// The real clock, which the program does not see.
    pub(super) fn now(&self) -> u64 {
        let (base, since) = self.base;
        base.saturating_add(to_ticks(since.elapsed()))
    }

    /// The moment at which the clock will be at `due`.
    pub(super) fn instant_at(&self, due: u64) -> Instant {
        let (base, since) = self.base;
        let wait = Duration::from_micros(due.saturating_sub(base).saturating_mul(TICK_MICROS));
        // The caller checks the clock again if nothing has happened by then.
        since.checked_add(wait).unwrap_or_else(|| since + MAX_TIMER)
    }

    /// Notes that a timer fires: no later reading is before it.
    pub(super) fn note_timer(&mut self, due: u64) {
        if self.repeats_left > 0 {
            self.mark_diverged();
        }
        self.flush_repeats();
        self.last = self.last.max(due);
    }

    /// Notes that a call was made.
    pub(super) fn note_call(&mut self, number: u32) {
        self.calls_made = number;
        self.open_calls.insert(number);
    }

    /// Whether any call is open.
    pub(super) fn has_open_calls(&self) -> bool {
        !self.open_calls.is_empty()
    }

    /// What ended the wait that begins now, according to the trace; `None` if the trace has ended.
    pub(super) fn recall_wait(&mut self) -> Result<Option<WaitEnd>, ReplayDiverged> {
        if self.diverged {
            return Err(ReplayDiverged);
        }
        if self.is_live() {
            return Ok(None);
        }
        let taken = if self.repeats_left > 0 {
            None
        } else {
            match self.given.pop_front() {
                Some(TIMER) => Some(WaitEnd::Timer),
                Some(ANSWER) => self
                    .take_varint()
                    .map(|back| u64::from(self.calls_made).checked_sub(back))
                    .and_then(|number| {
                        let number = u32::try_from(number?).ok()?;
                        self.open_calls.remove(&number).then_some(WaitEnd::Answer(number))
                    }),
                _ => None,
            }
        };
        self.go_live();
        taken.map(Some).ok_or_else(|| self.mark_diverged())
    }

    /// Records what ended a wait.
    pub(super) fn note_wait(&mut self, taken: WaitEnd) {
        self.flush_repeats();
        match taken {
            WaitEnd::Timer => self.recorded.push(TIMER),
            WaitEnd::Answer(number) => {
                self.open_calls.remove(&number);
                self.recorded.push(ANSWER);
                put_varint(&mut self.recorded, u64::from(self.calls_made.saturating_sub(number)));
            }
        }
    }

    /// Whether the recorded trace is long enough to be handed on.
    pub(super) fn is_chunk_full(&self) -> bool {
        self.recorded.len() >= TRACE_CHUNK_BYTES
    }

    /// Takes the trace recorded since the last time.
    pub(super) fn take_recorded(&mut self) -> Vec<u8> {
        self.flush_repeats();
        std::mem::take(&mut self.recorded)
    }

    fn note_time(&mut self, now: u64) {
        match (now.checked_sub(self.last), &mut self.pending_repeats) {
            (Some(ahead @ 1..), _) => {
                self.flush_repeats();
                self.last = now;
                self.pending_repeats = Some((ahead, 0));
            }
            (_, Some((_, again))) => *again += 1,
            (_, None) => self.pending_repeats = Some((0, 0)),
        }
    }

    fn flush_repeats(&mut self) {
        if let Some((ahead, again)) = self.pending_repeats.take() {
            self.recorded.push(TIME);
            put_varint(&mut self.recorded, ahead);
            put_varint(&mut self.recorded, again);
        }
    }

    fn recall_time(&mut self) -> Option<()> {
        if let Some(again) = self.repeats_left.checked_sub(1) {
            self.repeats_left = again;
        } else {
            if self.given.pop_front() != Some(TIME) {
                return None;
            }
            let (ahead, again) = (self.take_varint()?, self.take_varint()?);
            self.last = self.last.checked_add(ahead)?;
            self.repeats_left = again;
        }
        self.go_live();
        Some(())
    }

    /// Starts the real clock once the trace has ended: at the present time, but not before what the program last saw.
    fn go_live(&mut self) {
        if self.is_live() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.base = (self.last.max(to_ticks(now)), Instant::now());
        }
    }

    fn take_varint(&mut self) -> Option<u64> {
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

fn to_ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK_DURATION.as_nanos()).unwrap_or(u64::MAX)
}

/// Appends a number in groups of seven bits, the lowest group first.
fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests;
