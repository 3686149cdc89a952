//! How often: every rule with a rate counts the calls it let through.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ringfence_policy::{Rate, Rule};

/// The calls of one session, by the rules that count them.
#[derive(Debug, Default)]
pub(super) struct Rates(HashMap<String, VecDeque<Instant>>);

impl Rates {
    /// Counts a call under all of `rates`, or none of them: answers the rule that is used up and when it has room again.
    pub(super) fn take(&mut self, rates: &[(Rule, Rate)], now: Instant) -> Result<(), (Rule, Rate, Duration)> {
        for (rule, rate) in rates {
            let calls = self.0.entry(rule.as_str().to_owned()).or_default();
            let window = rate.per().window();
            while calls.front().is_some_and(|at| now.duration_since(*at) >= window) {
                calls.pop_front();
            }
            let full = calls.len() >= usize::try_from(rate.count()).unwrap_or(usize::MAX);
            if let (true, Some(first)) = (full, calls.front()) {
                return Err((rule.clone(), *rate, window.saturating_sub(now.duration_since(*first))));
            }
            if full {
                return Err((rule.clone(), *rate, window));
            }
        }
        for (rule, _) in rates {
            self.0.entry(rule.as_str().to_owned()).or_default().push_back(now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
