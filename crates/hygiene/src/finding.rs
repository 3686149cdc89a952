//! A finding, and what becomes of findings that overlap.

use crate::kind::Kind;

/// A stretch of a text that is personal data or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
    /// What says so.
    pub by: Evidence,
}

/// What a finding rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Evidence {
    /// Words of a dictionary, or a reader of prose that the operator plugged in.
    Prose,
    /// The key, column or schema it stands under.
    Key,
    /// Its form, and a checksum where the kind has one.
    Form,
}

impl Finding {
    /// Who stays when two overlap: secrets, operators' own, structured kinds under a key, forms, other keys, prose.
    fn rank(&self) -> u8 {
        match (self.kind, self.by) {
            (Kind::Secret, _) => 6,
            (Kind::Own(_), _) => 5,
            (kind, Evidence::Key) if kind.is_structured() => 4,
            (_, Evidence::Form) => 3,
            (_, Evidence::Key) => 2,
            (_, Evidence::Prose) => 1,
        }
    }
}

/// Puts findings in order without overlaps. Of two, the higher rank stays, then the longer, then the earlier; what of
/// the other sticks out is kept as a finding of its own, so that nothing found is shown.
pub(crate) fn resolve(text: &str, mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_unstable_by_key(|one| (one.start, one.end));
    if findings.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        return findings;
    }
    let mut kept = Vec::with_capacity(findings.len());
    let mut rest = findings.as_mut_slice();
    while let Some(first) = rest.first() {
        // A stretch whose findings overlap each other and none outside.
        let mut end = first.end;
        let more = rest.iter().take_while(|one| {
            let overlaps = one.start < end;
            end = end.max(one.end);
            overlaps
        });
        let count = more.count();
        let (stretch, others) = rest.split_at_mut(count);
        kept.extend(resolve_stretch(text, stretch));
        rest = others;
    }
    kept
}

fn resolve_stretch(text: &str, findings: &mut [Finding]) -> Vec<Finding> {
    findings.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.rank()),
            std::cmp::Reverse(one.end - one.start),
            one.start,
            one.kind,
        )
    });
    let mut kept: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        place(text, &mut kept, *finding);
    }
    kept
}

/// Inserts what of a finding is still free.
fn place(text: &str, kept: &mut Vec<Finding>, finding: Finding) {
    let mut start = finding.start;
    let mut index = kept.partition_point(|one| one.end <= finding.start);
    while start < finding.end {
        let next = kept.get(index).copied();
        let end = next.map_or(finding.end, |one| one.start.clamp(start, finding.end));
        if let Some((first, last)) = trimmed(text, start, end, finding) {
            let part = Finding {
                start: first,
                end: last,
                ..finding
            };
            kept.insert(index, part);
            index += 1;
        }
        let Some(next) = next else { return };
        start = next.end;
        index += 1;
    }
}

/// The part between two others without the punctuation at its ends; all of it if it is the whole finding.
pub(crate) fn trimmed(text: &str, start: usize, end: usize, whole: Finding) -> Option<(usize, usize)> {
    if start == whole.start && end == whole.end {
        return Some((start, end));
    }
    let part = text.get(start..end)?;
    let inner = part.trim_matches(|letter: char| !letter.is_alphanumeric());
    if inner.is_empty() {
        return None;
    }
    let lead = part.len() - part.trim_start_matches(|letter: char| !letter.is_alphanumeric()).len();
    Some((start + lead, start + lead + inner.len()))
}

#[cfg(test)]
mod tests;
