//! A program that got an answer often makes its next call sooner than a host that went to sleep would wake. So for a moment the
//! host stays awake; where that was in vain, it sleeps at once after the next answers.

use std::time::{Duration, Instant};

/// About what sleeping and waking take.
const MOMENT: Duration = Duration::from_micros(50);
/// So many answers are slept after at once when staying awake was in vain: it costs a program that computes next to nothing.
const PAUSE: u32 = 32;

/// Whether the host stays awake.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    until: Option<Instant>,
    /// Answers after which it still sleeps at once.
    pause: u32,
}

impl Awake {
    /// An answer goes to the program.
    pub(crate) fn answered(&mut self) {
        match self.pause.checked_sub(1) {
            Some(pause) => self.pause = pause,
            None => self.until = Some(Instant::now() + MOMENT),
        }
    }

    /// The program said something.
    pub(crate) fn heard(&mut self) {
        self.until = None;
    }

    pub(crate) fn is_awake(&mut self) -> bool {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            (self.until, self.pause) = (None, PAUSE);
        }
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests;
