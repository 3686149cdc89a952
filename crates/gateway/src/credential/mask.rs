//! Finds patterns in bytes that arrive in pieces, and masks them. A mask has the length of what it hides, so a
//! declared body length stays valid. Bytes that cannot be part of a pattern are passed on at once, so streams are not
//! delayed.

use std::sync::{Arc, PoisonError, RwLock};

use zeroize::Zeroizing;

/// Replaces each byte of a match.
const MASK_BYTE: u8 = b'*';
/// Shortest pattern that is looked for in header names.
const MIN_HEADER_NAME_MATCH: usize = 8;

/// Patterns to look for, longest first, because one may contain another.
pub(crate) type MaskPatterns = Arc<[Zeroizing<Vec<u8>>]>;

/// Patterns that may grow while streams are being masked.
pub(crate) type SharedMaskPatterns = Arc<RwLock<MaskPatterns>>;

/// Sorts the patterns and drops empty ones.
pub(crate) fn sorted_patterns(all: impl IntoIterator<Item = Vec<u8>>) -> MaskPatterns {
    let some = all.into_iter().filter(|word| !word.is_empty()).map(Zeroizing::new);
    let mut some: Vec<Zeroizing<Vec<u8>>> = some.collect();
    some.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    some.dedup();
    some.into()
}

/// Masks one stream of bytes.
#[derive(Clone)]
pub(crate) struct StreamMask {
    source: SharedMaskPatterns,
    /// The end of the input so far, which may be the start of a pattern.
    held: Zeroizing<Vec<u8>>,
    found: bool,
}

impl std::fmt::Debug for StreamMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.patterns().len())
    }
}

impl StreamMask {
    /// Masks these patterns, and those that are added later.
    pub(crate) fn from_shared(source: SharedMaskPatterns) -> StreamMask {
        StreamMask {
            source,
            held: Zeroizing::default(),
            found: false,
        }
    }

    /// Masks exactly these patterns.
    pub(crate) fn new(all: impl IntoIterator<Item = Vec<u8>>) -> StreamMask {
        StreamMask::from_shared(Arc::new(RwLock::new(sorted_patterns(all))))
    }

    fn patterns(&self) -> MaskPatterns {
        Arc::clone(&self.source.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there are no patterns to look for at present.
    pub(crate) fn is_idle(&self) -> bool {
        self.patterns().is_empty()
    }

    /// Whether the input so far contained a pattern.
    pub(crate) fn has_matched(&self) -> bool {
        self.found
    }

    /// Takes a piece of input and returns the bytes that may be passed on.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let words = self.patterns();
        let mut all = std::mem::take(&mut *self.held);
        all.extend_from_slice(piece);
        let open = all.len() - partial_match_length(&words, &all);
        // Bytes that may still become a longer match are undecided, even where they contain a shorter one.
        let keep = self.mask_before(&words, &mut all, open);
        *self.held = all.split_off(keep);
        all
    }

    /// Ends the input and returns the bytes that were held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut *self.held);
        self.mask_in_place(&mut rest);
        rest
    }

    /// Whether a header name contains a pattern, in any case, since header names ignore case.
    pub(crate) fn matches_header_name(&mut self, name: &str) -> bool {
        let name = name.as_bytes().to_ascii_lowercase();
        let is_there = |word: &Zeroizing<Vec<u8>>| {
            let word = Zeroizing::new(word.to_ascii_lowercase());
            // Shorter patterns may be in any name, and reveal little of a secret.
            word.len() >= MIN_HEADER_NAME_MATCH && memchr::memmem::find(&name, &word).is_some()
        };
        let found = self.patterns().iter().any(is_there);
        self.found |= found;
        found
    }

    /// Masks every complete match in a buffer.
    pub(crate) fn mask_in_place(&mut self, bytes: &mut [u8]) {
        let end = bytes.len();
        self.mask_before(&self.patterns(), bytes, end);
    }

    /// Masks the matches that begin before `end`. Returns where the undecided bytes begin.
    fn mask_before(&mut self, words: &MaskPatterns, bytes: &mut [u8], end: usize) -> usize {
        let mut decided = end;
        for word in words.iter() {
            let mut from = 0;
            while let Some(at) = memchr::memmem::find(&bytes[from..], word) {
                let start = from + at;
                if start >= end {
                    break;
                }
                let stop = start + word.len();
                bytes[start..stop].fill(MASK_BYTE);
                decided = decided.max(stop);
                from = stop;
                self.found = true;
            }
        }
        decided
    }
}

/// Returns how many bytes at the end are the start of a pattern.
fn partial_match_length(words: &MaskPatterns, bytes: &[u8]) -> usize {
    let longest = |word: &Zeroizing<Vec<u8>>| {
        let most = (word.len() - 1).min(bytes.len());
        (1..=most)
            .rev()
            .find(|count| word.starts_with(&bytes[bytes.len() - count..]))
    };
    words.iter().filter_map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
