//! Counts the tests that ran, from the output of the test programs.

use std::fmt;

use super::skips;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    /// Tests that skipped themselves for an accepted reason.
    pub(super) skipped: u64,
    /// Tests that passed only when they were retried.
    pub(super) again: u64,
}

impl Tally {
    /// Parses nextest's `Summary […] 3 tests run: 3 passed, …`, or else every `test result: ok. 3 passed; …`.
    pub(super) fn of(lines: &[String]) -> Self {
        let lines = || lines.iter().map(|line| line.trim_start());
        let summary = lines().rfind(|line| line.starts_with("Summary ") && line.contains(" run: "));
        let passed = summary.and_then(|line| before(line, " passed")).unwrap_or_else(|| {
            let results = lines().filter(|line| line.starts_with("test result: "));
            results.filter_map(|line| before(line, " passed")).sum()
        });
        let skipped = lines().filter_map(skips::reason).map(|_| 1).sum();
        let again = summary.and_then(|line| before(line, " flaky")).unwrap_or_default();
        Self { passed, skipped, again }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.again += other.again;
    }
}

/// The number directly before a word.
fn before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.rsplit([' ', '(']).next()?.parse().ok()
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A test that skipped itself counts as passed in the output.
        write!(out, "{} tests ran", self.passed.saturating_sub(self.skipped))?;
        if self.skipped > 0 {
            write!(out, ", {} not possible on this machine", self.skipped)?;
        }
        if self.again > 0 {
            write!(out, ", {} only at a second try: they want mending", self.again)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
