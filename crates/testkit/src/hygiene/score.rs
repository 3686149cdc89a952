//! Findings against labels. A hit overlaps its label by half of what both cover, one to one; a label is *hidden* when findings of any kind
//! cover each of its characters.

use std::fmt;

use ringfence_hygiene::{Detector, Finding, Kind};

use super::data::{Label, Set, Text};

/// The kinds that have a form of their own.
pub const STRUCTURED: [Kind; 7] = [
    Kind::Email,
    Kind::Card,
    Kind::Iban,
    Kind::Ssn,
    Kind::Ip,
    Kind::Url,
    Kind::Phone,
];

/// How well a kind was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// The number of labels.
    pub labels: u32,
    /// The number of findings.
    pub found: u32,
    /// Labels that a finding hits.
    pub hits: u32,
    /// Labels that a finding covers exactly.
    pub exact: u32,
    /// Labels that findings cover completely.
    pub hidden: u32,
}

impl Score {
    /// The share of findings that hit a label.
    pub fn precision(&self) -> f64 {
        share(self.hits, self.found)
    }

    /// The share of labels that are hit.
    pub fn recall(&self) -> f64 {
        share(self.hits, self.labels)
    }

    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> f64 {
        share(2 * self.hits, self.found + self.labels)
    }

    /// The share of labels that a finding covers exactly.
    pub fn exact(&self) -> f64 {
        share(self.exact, self.labels)
    }

    /// The share of labels that nobody can read.
    pub fn hidden(&self) -> f64 {
        share(self.hidden, self.labels)
    }

    fn add(self, other: Score) -> Score {
        Score {
            labels: self.labels + other.labels,
            found: self.found + other.found,
            hits: self.hits + other.hits,
            exact: self.exact + other.exact,
            hidden: self.hidden + other.hidden,
        }
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 {
        1.0
    } else {
        f64::from(part) / f64::from(whole)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3}",
            self.labels,
            self.precision(),
            self.recall(),
            self.f1(),
            self.exact(),
            self.hidden()
        )
    }
}

/// The findings in each text, in the order of the texts.
pub type Found = Vec<Vec<Finding>>;

/// Searches each text of a set with a detector.
pub fn found(detector: &Detector, set: &Set) -> Found {
    set.texts.iter().map(|text| detector.find(&text.text)).collect()
}

/// Scores some kinds together over a set.
pub fn kinds(set: &Set, found: &[Vec<Finding>], wanted: &[Kind]) -> Score {
    let one = |(text, found): (&Text, &Vec<Finding>)| {
        let each = wanted.iter().map(|kind| text_score(text, found, *kind));
        each.fold(Score::default(), Score::add)
    };
    let texts = set.texts.iter().zip(found);
    texts.map(one).fold(Score::default(), Score::add)
}

fn text_score(text: &Text, found: &[Finding], wanted: Kind) -> Score {
    let mut free: Vec<&Finding> = found.iter().filter(|one| one.kind == wanted).collect();
    let mut score = Score {
        found: u32::try_from(free.len()).unwrap_or(u32::MAX),
        ..Score::default()
    };
    for label in text.labels.iter().filter(|label| label.kind == wanted) {
        score.labels += 1;
        score.hidden += u32::from(is_hidden(text, found, *label));
        if let Some(index) = free.iter().position(|one| hits(one, label)) {
            let one = free.swap_remove(index);
            score.hits += 1;
            score.exact += u32::from((one.start, one.end) == (label.start, label.end));
        }
    }
    score
}

/// Whether a finding overlaps a label by half of what both cover.
pub fn hits(one: &Finding, label: &Label) -> bool {
    let shared = one.end.min(label.end).saturating_sub(one.start.max(label.start));
    let both = one.end.max(label.end) - one.start.min(label.start);
    shared * 2 >= both
}

fn is_hidden(text: &Text, found: &[Finding], label: Label) -> bool {
    let covered = |at: usize| found.iter().any(|one| (one.start..one.end).contains(&at));
    let mut letters = text.text[label.start..label.end].char_indices();
    letters.all(|(at, letter)| letter.is_whitespace() || covered(label.start + at))
}
