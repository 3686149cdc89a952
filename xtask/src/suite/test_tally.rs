//! Counts the tests that ran, from the output of the test programs.

use std::fmt;

use super::skips;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TestTally {
    pub(super) passed: u64,
    /// Tests that skipped themselves for an accepted reason.
    pub(super) skipped: u64,
    /// Tests that passed only when they were retried.
    pub(super) retried: u64,
}

impl TestTally {
    /// Parses nextest's `Summary […] 3 tests run: 3 passed, …`, or else every `test result: ok. 3 passed; …`.
    pub(super) fn from_output(lines: &[String]) -> Self {
        let lines = || lines.iter().map(|line| line.trim_start());
        let summary = lines().rfind(|line| line.starts_with("Summary ") && line.contains(" run: "));
        let passed = summary
            .and_then(|line| number_before(line, " passed"))
            .unwrap_or_else(|| {
                let results = lines().filter(|line| line.starts_with("test result: "));
                results.filter_map(|line| number_before(line, " passed")).sum()
            });
        let skipped = lines().filter_map(skips::skip_reason).map(|_| 1).sum();
        let retried = summary
            .and_then(|line| number_before(line, " flaky"))
            .unwrap_or_default();
        Self {
            passed,
            skipped,
            retried,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.retried += other.retried;
    }
}

/// The number directly before a word.
fn number_before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.rsplit([' ', '(']).next()?.parse().ok()
}

impl fmt::Display for TestTally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A test that skipped itself counts as passed in the output.
        write!(out, "{} tests ran", self.passed.saturating_sub(self.skipped))?;
        if self.skipped > 0 {
            write!(out, ", {} not possible on this machine", self.skipped)?;
        }
        if self.retried > 0 {
            write!(out, ", {} only at a second try: they want mending", self.retried)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
