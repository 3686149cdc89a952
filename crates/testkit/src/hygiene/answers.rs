//! Labelled answers of tools about things and people: which values must be hidden, and which must stay.
//!
//! A file has one answer per line: `answer` is JSON or a text, `hide` has the pointers of values that must be hidden (for a text, the
//! stretches), `either` those that may be hidden or stay. All others must stay. The first file was written along with the rules, the second
//! before anybody looked at what the rules make of it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use ringfence_hygiene::{Detector, DetectorConfig, NameDetection, SchemaHints, SecretDetection, SensitiveKinds};
use serde::Deserialize;
use serde_json::Value;

/// The files of labelled answers, by how they were written.
const SETS: [(&str, &str); 2] = [
    ("labelled answers", include_str!("../../testdata/answers.jsonl")),
    (
        "answers labelled before the rules saw them",
        include_str!("../../testdata/answers-written-first.jsonl"),
    ),
];

/// A tool answer with its labels.
#[derive(Debug, Deserialize)]
pub struct LabelledAnswer {
    /// The subject of the answer.
    pub about: String,
    /// The answer itself, JSON or a text.
    pub answer: Value,
    /// Values that must be hidden.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Values that may be hidden or shown.
    #[serde(default)]
    pub either: Vec<String>,
}

/// Counts of values by how a detector treated them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AnswerTally {
    /// The number of answers in the count.
    pub answers: usize,
    /// The number of values that must stay.
    pub keep: usize,
    /// Values that must stay and were hidden, at least in part.
    pub wrong: Vec<String>,
    /// The number of values that must be hidden.
    pub hide: usize,
    /// Values that must be hidden and were shown, at least in part.
    pub missed: Vec<String>,
}

impl AnswerTally {
    /// The share of hidden values that had to be hidden.
    pub fn precision(&self) -> f64 {
        let right = self.hide - self.missed.len();
        super::share(right, right + self.wrong.len())
    }

    /// The share of all values that were hidden wrongly.
    pub fn wrong_share(&self) -> f64 {
        super::share(self.wrong.len(), self.keep + self.hide)
    }

    /// The share of values that had to be hidden and were.
    pub fn recall(&self) -> f64 {
        super::share(self.hide - self.missed.len(), self.hide)
    }
}

/// The sets of labelled answers, with their names.
pub fn sets() -> Result<Vec<(&'static str, Vec<LabelledAnswer>)>> {
    let read = |(name, lines): (&'static str, &str)| {
        let lines = lines.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("answer {} of the {name} cannot be read", index + 1))
        });
        Ok((name, lines.collect::<Result<_>>()?))
    };
    SETS.into_iter().map(read).collect()
}

/// The labelled answers of all sets.
pub fn labelled_answers() -> Result<Vec<LabelledAnswer>> {
    Ok(sets()?.into_iter().flat_map(|(_, answers)| answers).collect())
}

/// A detector of the kinds that apply where a policy has no rules for them.
pub fn default_detector() -> Detector {
    let words = ["email", "phone", "card", "iban", "ssn", "name"];
    let kinds = words.into_iter().filter_map(SensitiveKinds::from_policy_name);
    Detector::new(&DetectorConfig {
        kinds: kinds.fold(SensitiveKinds::none(), SensitiveKinds::union),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    })
}

/// Counts how a detector treats the values of answers.
pub fn tally(detector: &Detector, answers: &[LabelledAnswer]) -> AnswerTally {
    let mut tally = AnswerTally {
        answers: answers.len(),
        ..AnswerTally::default()
    };
    for one in answers {
        match one.answer.as_str() {
            Some(text) => tally_text(detector, text, one, &mut tally),
            None => tally_value(detector, &one.answer, one, &mut tally),
        }
    }
    tally
}

/// Counts the strings and numbers of a structure as values.
fn tally_value(detector: &Detector, value: &Value, one: &LabelledAnswer, tally: &mut AnswerTally) {
    let mut leaves = Vec::new();
    collect_leaves(value, &mut String::new(), &mut leaves);
    let found = detector.find_json(value, &SchemaHints::none());
    let found: BTreeSet<&str> = found.iter().map(|one| one.pointer.as_str()).collect();
    for (pointer, text) in leaves {
        let hidden = found.contains(pointer.as_str());
        let place = || format!("{}: {pointer} {text}", one.about);
        if one.hide.contains(&pointer) {
            tally.hide += 1;
            tally.missed.extend((!hidden).then(place));
        } else if !one.either.contains(&pointer) {
            tally.keep += 1;
            tally.wrong.extend(hidden.then(place));
        }
    }
}

fn collect_leaves(value: &Value, pointer: &mut String, leaves: &mut Vec<(String, String)>) {
    let length = pointer.len();
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                collect_leaves(member, pointer, leaves);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                collect_leaves(item, pointer, leaves);
                pointer.truncate(length);
            }
        }
        Value::String(_) | Value::Number(_) => leaves.push((pointer.clone(), value.to_string())),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Counts each word of a text outside of the labelled stretches as a value.
fn tally_text(detector: &Detector, text: &str, one: &LabelledAnswer, tally: &mut AnswerTally) {
    let found = detector.find(text);
    let place = |label: &String| text.find(label.as_str()).map(|start| (start, start + label.len()));
    let labels: Vec<(usize, usize)> = one.hide.iter().filter_map(place).collect();
    let either: Vec<(usize, usize)> = one.either.iter().filter_map(place).collect();
    for (start, end) in &labels {
        tally.hide += 1;
        let hidden = found.iter().any(|one| one.start <= *start && one.end >= *end);
        let place = || format!("{}: {}", one.about, &text[*start..*end]);
        tally.missed.extend((!hidden).then(place));
    }
    for word in text.split_whitespace() {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        let end = start + word.len();
        let overlaps = |(from, to): (usize, usize)| from < end && start < to;
        if labels.iter().chain(&either).any(|label| overlaps(*label)) {
            continue;
        }
        tally.keep += 1;
        let hidden = found.iter().any(|one| overlaps((one.start, one.end)));
        tally
            .wrong
            .extend(hidden.then(|| format!("{}: {word} in {text}", one.about)));
    }
}

#[cfg(test)]
mod tests;
