//! The findings of the probes, as data and as a table for people.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use crate::catalogue::ProbeClass;

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// The attempt was refused or had no effect, and touched no secret of the host.
    Held,
    /// The attempt succeeded, so the fence is broken.
    Broken,
    /// This host lacks the mechanism that would stop it; the detail says which.
    Unenforceable,
    /// There is nothing here that it could attack; the detail says why.
    NotApplicable,
}

impl ProbeOutcome {
    /// The outcome as a phrase for people.
    pub const fn name(self) -> &'static str {
        match self {
            ProbeOutcome::Held => "held",
            ProbeOutcome::Broken => "BROKEN",
            ProbeOutcome::Unenforceable => "unenforceable",
            ProbeOutcome::NotApplicable => "not applicable",
        }
    }
}

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeFinding {
    /// The number of the probe in the catalogue.
    pub id: u16,
    /// The class, serialized as its letter.
    #[serde(serialize_with = "letter")]
    pub class: ProbeClass,
    /// What the probe tries, as a phrase for people.
    pub name: &'static str,
    /// How the probe ended.
    pub outcome: ProbeOutcome,
    /// The mechanism that stops it, or would.
    pub by: String,
    /// What the probe saw, for people.
    pub detail: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands fields out by reference"
)]
fn letter<S: Serializer>(class: &ProbeClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_char(class.letter())
}

/// The results of all probes, by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The findings, ordered by number.
    pub probes: Vec<ProbeFinding>,
}

impl ProbeReport {
    /// Adds findings, each at its number.
    pub fn add(&mut self, more: Vec<ProbeFinding>) {
        self.probes.extend(more);
        self.probes.sort_by_key(|finding| finding.id);
    }

    /// How many probes ended with this outcome.
    pub fn count(&self, outcome: ProbeOutcome) -> usize {
        self.probes.iter().filter(|finding| finding.outcome == outcome).count()
    }

    /// A plain table, grouped by class, with the counts at the end.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut last = None;
        for finding in &self.probes {
            if last != Some(finding.class) {
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "{}  {}", finding.class.letter(), finding.class.title());
                last = Some(finding.class);
            }
            let _ = writeln!(
                text,
                "  {:>3}  {:<14}  {:<18}  {:<52}  {}",
                finding.id,
                finding.outcome.name(),
                finding.by,
                finding.name,
                finding.detail
            );
        }
        let counts = [
            ProbeOutcome::Held,
            ProbeOutcome::Broken,
            ProbeOutcome::Unenforceable,
            ProbeOutcome::NotApplicable,
        ]
        .map(|outcome| format!("{} {}", self.count(outcome), outcome.name().to_lowercase()));
        let _ = writeln!(text, "{} probes: {}", self.probes.len(), counts.join(", "));
        text
    }
}

#[cfg(test)]
mod tests;
