//! Findings, and how overlapping ones are resolved.

use crate::kind::SensitiveKind;

/// A range of a text that is personal data or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SensitiveSpan {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset of the byte after the last.
    pub end: usize,
    /// The kind of data in the range.
    pub kind: SensitiveKind,
    /// The evidence for the kind.
    pub by: Evidence,
}

/// The evidence for a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Evidence {
    /// Words of a dictionary, or a prose reader of the operator.
    Prose,
    /// The key, column or schema of the value.
    Key,
    /// The form of the value, with a checksum if the kind has one.
    Form,
}

impl SensitiveSpan {
    /// Returns the priority in an overlap: secrets, custom kinds, structured kinds under a key, forms, other keys,
    /// prose.
    fn rank(&self) -> u8 {
        match (self.kind, self.by) {
            (SensitiveKind::Secret, _) => 6,
            (SensitiveKind::Custom(_), _) => 5,
            (kind, Evidence::Key) if kind.is_structured() => 4,
            (_, Evidence::Form) => 3,
            (_, Evidence::Key) => 2,
            (_, Evidence::Prose) => 1,
        }
    }
}

/// Sorts findings and removes overlaps. Of two, the higher rank stays, then the longer, then the earlier; the
/// uncovered part of the other stays as a separate finding, so that no finding is shown.
pub(crate) fn resolve_overlaps(text: &str, mut findings: Vec<SensitiveSpan>) -> Vec<SensitiveSpan> {
    findings.sort_unstable_by_key(|one| (one.start, one.end));
    if findings.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        return findings;
    }
    let mut kept = Vec::with_capacity(findings.len());
    let mut rest = findings.as_mut_slice();
    while let Some(first) = rest.first() {
        // A cluster whose findings overlap each other and no others.
        let mut end = first.end;
        let more = rest.iter().take_while(|one| {
            let overlaps = one.start < end;
            end = end.max(one.end);
            overlaps
        });
        let count = more.count();
        let (stretch, others) = rest.split_at_mut(count);
        kept.extend(resolve_cluster(text, stretch));
        rest = others;
    }
    kept
}

fn resolve_cluster(text: &str, findings: &mut [SensitiveSpan]) -> Vec<SensitiveSpan> {
    findings.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.rank()),
            std::cmp::Reverse(one.end - one.start),
            one.start,
            one.kind,
        )
    });
    let mut kept: Vec<SensitiveSpan> = Vec::with_capacity(findings.len());
    for finding in findings {
        insert_free_parts(text, &mut kept, *finding);
    }
    kept
}

/// Inserts the uncovered parts of a finding.
fn insert_free_parts(text: &str, kept: &mut Vec<SensitiveSpan>, finding: SensitiveSpan) {
    let mut start = finding.start;
    let mut index = kept.partition_point(|one| one.end <= finding.start);
    while start < finding.end {
        let next = kept.get(index).copied();
        let end = next.map_or(finding.end, |one| one.start.clamp(start, finding.end));
        if let Some((first, last)) = trim_punctuation(text, start, end, finding) {
            let part = SensitiveSpan {
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

/// Trims punctuation from the ends of a part between two findings; a whole finding is not trimmed.
pub(crate) fn trim_punctuation(text: &str, start: usize, end: usize, whole: SensitiveSpan) -> Option<(usize, usize)> {
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
