//! Findings against labels. A hit overlaps its label by half of what both cover, one to one; a label is *hidden* when findings of any kind
//! cover each of its characters.

use std::fmt;

use ringfence_hygiene::{Detector, SensitiveKind, SensitiveSpan};

use super::data::{Label, LabelledSet, LabelledText};

/// The kinds that have a form of their own.
pub const STRUCTURED: [SensitiveKind; 7] = [
    SensitiveKind::Email,
    SensitiveKind::Card,
    SensitiveKind::Iban,
    SensitiveKind::Ssn,
    SensitiveKind::Ip,
    SensitiveKind::Url,
    SensitiveKind::Phone,
];

/// How well a kind was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DetectionScore {
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

impl DetectionScore {
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

    fn add(self, other: DetectionScore) -> DetectionScore {
        DetectionScore {
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

impl fmt::Display for DetectionScore {
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
pub type DetectorFindings = Vec<Vec<SensitiveSpan>>;

/// Searches each text of a set with a detector.
pub fn find_all(detector: &Detector, set: &LabelledSet) -> DetectorFindings {
    set.texts.iter().map(|text| detector.find(&text.text)).collect()
}

/// Scores some kinds together over a set.
pub fn score_kinds(set: &LabelledSet, found: &[Vec<SensitiveSpan>], wanted: &[SensitiveKind]) -> DetectionScore {
    let one = |(text, found): (&LabelledText, &Vec<SensitiveSpan>)| {
        let each = wanted.iter().map(|kind| text_score(text, found, *kind));
        each.fold(DetectionScore::default(), DetectionScore::add)
    };
    let texts = set.texts.iter().zip(found);
    texts.map(one).fold(DetectionScore::default(), DetectionScore::add)
}

fn text_score(text: &LabelledText, found: &[SensitiveSpan], wanted: SensitiveKind) -> DetectionScore {
    let mut free: Vec<&SensitiveSpan> = found.iter().filter(|one| one.kind == wanted).collect();
    let mut score = DetectionScore {
        found: u32::try_from(free.len()).unwrap_or(u32::MAX),
        ..DetectionScore::default()
    };
    for label in text.labels.iter().filter(|label| label.kind == wanted) {
        score.labels += 1;
        score.hidden += u32::from(is_hidden(text, found, *label));
        if let Some(index) = free.iter().position(|one| is_hit(one, label)) {
            let one = free.swap_remove(index);
            score.hits += 1;
            score.exact += u32::from((one.start, one.end) == (label.start, label.end));
        }
    }
    score
}

/// Whether a finding overlaps a label by half of what both cover.
pub fn is_hit(one: &SensitiveSpan, label: &Label) -> bool {
    let shared = one.end.min(label.end).saturating_sub(one.start.max(label.start));
    let both = one.end.max(label.end) - one.start.min(label.start);
    shared * 2 >= both
}

fn is_hidden(text: &LabelledText, found: &[SensitiveSpan], label: Label) -> bool {
    let covered = |at: usize| found.iter().any(|one| (one.start..one.end).contains(&at));
    let mut letters = text.text[label.start..label.end].char_indices();
    letters.all(|(at, letter)| letter.is_whitespace() || covered(label.start + at))
}
