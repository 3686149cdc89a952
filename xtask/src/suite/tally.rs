//! How many tests ran, read from what the test programs print.

use std::fmt;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    /// Tests that skipped themselves for a reason that counts.
    pub(super) skipped: u64,
}

impl Tally {
    /// Reads `test result: ok. 3 passed; …` and nextest's `Summary […] 3 tests run: 3 passed, …`.
    pub(super) fn of(lines: &[String]) -> Self {
        let mut tally = Self::default();
        for line in lines {
            let line = line.trim_start();
            if line.starts_with("test result: ") || (line.starts_with("Summary ") && line.contains(" run: ")) {
                tally.passed += before(line, " passed").unwrap_or_default();
            }
            if super::skips::reason(line).is_some() {
                tally.skipped += 1;
            }
        }
        tally
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
    }
}

/// The number right before a word.
fn before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.rsplit(' ').next()?.parse().ok()
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A test that skipped itself is among the passed ones.
        write!(out, "{} tests ran", self.passed.saturating_sub(self.skipped))?;
        if self.skipped > 0 {
            write!(out, ", {} not possible on this machine", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
