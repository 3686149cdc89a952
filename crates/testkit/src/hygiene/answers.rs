//! Answers of tools about things and people, each value labelled: what must be hidden, and what must stay.
//!
//! A file has one answer a line: `answer` is JSON or a text, `hide` the pointers of what must go (of a text, the stretches), `either`
//! those of what may go or stay. All else must stay. The answers of the first were written along with the rules, those of the second
//! before anybody looked at what the rules make of them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use ringfence_hygiene::{Detector, Hints, Kinds, Names, Secrets, Settings};
use serde::Deserialize;
use serde_json::Value;

/// The labelled answers, by how they were written.
const SETS: [(&str, &str); 2] = [
    ("labelled answers", include_str!("../../testdata/answers.jsonl")),
    (
        "answers labelled before the rules saw them",
        include_str!("../../testdata/answers-written-first.jsonl"),
    ),
];

/// An answer with its labels.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// What it speaks of.
    pub about: String,
    /// What the tool said.
    pub answer: Value,
    /// What must be hidden.
    #[serde(default)]
    pub hide: Vec<String>,
    /// What may be hidden or shown.
    #[serde(default)]
    pub either: Vec<String>,
}

/// How many values were treated how.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers.
    pub answers: usize,
    /// Values that must stay.
    pub keep: usize,
    /// Those of them that were hidden, at least in part.
    pub wrong: Vec<String>,
    /// Values that must go.
    pub hide: usize,
    /// Those of them that were shown, at least in part.
    pub missed: Vec<String>,
}

impl Tally {
    /// The share of all that was hidden that had to be.
    pub fn precision(&self) -> f64 {
        let right = self.hide - self.missed.len();
        super::share(right, right + self.wrong.len())
    }

    /// The share of values that were hidden wrongly, of all that were looked at.
    pub fn wrongly(&self) -> f64 {
        super::share(self.wrong.len(), self.keep + self.hide)
    }

    /// The share of what had to be hidden that was.
    pub fn recall(&self) -> f64 {
        super::share(self.hide - self.missed.len(), self.hide)
    }
}

/// The labelled answers, a set at a time, with its name.
pub fn sets() -> Result<Vec<(&'static str, Vec<Answer>)>> {
    let read = |(name, lines): (&'static str, &str)| {
        let lines = lines.lines().enumerate().map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("answer {} of the {name} cannot be read", index + 1))
        });
        Ok((name, lines.collect::<Result<_>>()?))
    };
    SETS.into_iter().map(read).collect()
}

/// All labelled answers.
pub fn labelled() -> Result<Vec<Answer>> {
    Ok(sets()?.into_iter().flat_map(|(_, answers)| answers).collect())
}

/// A detector of what is looked for where a policy says nothing.
pub fn unwritten() -> Detector {
    let words = ["email", "phone", "card", "iban", "ssn", "name"];
    let kinds = words.into_iter().filter_map(Kinds::named);
    Detector::new(&Settings {
        kinds: kinds.fold(Kinds::none(), Kinds::and),
        names: Names::Keys,
        secrets: Secrets::Redact,
        own: Vec::new(),
    })
}

/// What a detector makes of answers.
pub fn tally(detector: &Detector, answers: &[Answer]) -> Tally {
    let mut tally = Tally {
        answers: answers.len(),
        ..Tally::default()
    };
    for one in answers {
        match one.answer.as_str() {
            Some(text) => told(detector, text, one, &mut tally),
            None => structured(detector, &one.answer, one, &mut tally),
        }
    }
    tally
}

/// Every string and number of a structure is a value.
fn structured(detector: &Detector, value: &Value, one: &Answer, tally: &mut Tally) {
    let mut leaves = Vec::new();
    collect(value, &mut String::new(), &mut leaves);
    let found = detector.find_json(value, &Hints::none());
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

fn collect(value: &Value, pointer: &mut String, leaves: &mut Vec<(String, String)>) {
    let length = pointer.len();
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                collect(member, pointer, leaves);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                collect(item, pointer, leaves);
                pointer.truncate(length);
            }
        }
        Value::String(_) | Value::Number(_) => leaves.push((pointer.clone(), value.to_string())),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Of a text every word outside of what must be hidden is a value.
fn told(detector: &Detector, text: &str, one: &Answer, tally: &mut Tally) {
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
