//! Finds words in bytes that come in pieces, and covers them. What is found keeps its length, so that a body that said how
//! long it is stays true; what cannot be part of a word is handed on at once, so that nothing that streams is held up.

use std::sync::{Arc, PoisonError, RwLock};

use zeroize::Zeroizing;

/// What stands where a word stood.
const COVER: u8 = b'*';
/// The shortest word that is looked for in the name of a header.
const LEAST_IN_NAME: usize = 8;

/// Words to look for; the longest first, for one may be part of another.
pub(crate) type Words = Arc<[Zeroizing<Vec<u8>>]>;

/// Words that become more while somebody looks for them.
pub(crate) type Growing = Arc<RwLock<Words>>;

/// Sorts words; empty ones are nowhere.
pub(crate) fn words(all: impl IntoIterator<Item = Vec<u8>>) -> Words {
    let some = all.into_iter().filter(|word| !word.is_empty()).map(Zeroizing::new);
    let mut some: Vec<Zeroizing<Vec<u8>>> = some.collect();
    some.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    some.dedup();
    some.into()
}

/// What looks through one stream of bytes.
#[derive(Clone)]
pub(crate) struct Mask {
    source: Growing,
    /// The end of what came, which could be the beginning of a word.
    held: Zeroizing<Vec<u8>>,
    found: bool,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.words().len())
    }
}

impl Mask {
    /// Looks for these, and for whatever becomes one of them later.
    pub(crate) fn of(source: Growing) -> Mask {
        Mask {
            source,
            held: Zeroizing::default(),
            found: false,
        }
    }

    /// Looks for exactly these.
    pub(crate) fn new(all: impl IntoIterator<Item = Vec<u8>>) -> Mask {
        Mask::of(Arc::new(RwLock::new(words(all))))
    }

    fn words(&self) -> Words {
        Arc::clone(&self.source.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether there is nothing to look for now.
    pub(crate) fn is_idle(&self) -> bool {
        self.words().is_empty()
    }

    /// Whether a word was in what came so far.
    pub(crate) fn found(&self) -> bool {
        self.found
    }

    /// Takes a piece, and answers what may go on.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let words = self.words();
        let mut all = std::mem::take(&mut *self.held);
        all.extend_from_slice(piece);
        let open = all.len() - open_end(&words, &all);
        // What could still become a longer word is not decided yet, also not where a shorter one is in it.
        let keep = self.cover_before(&words, &mut all, open);
        *self.held = all.split_off(keep);
        all
    }

    /// Nothing more comes: what was held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut *self.held);
        self.cover(&mut rest);
        rest
    }

    /// Whether a word is in the name of a header, in whatever case: names have none.
    pub(crate) fn is_in_name(&mut self, name: &str) -> bool {
        let name = name.as_bytes().to_ascii_lowercase();
        let is_there = |word: &Zeroizing<Vec<u8>>| {
            let word = Zeroizing::new(word.to_ascii_lowercase());
            // What is shorter may be in any name, and says little of a secret.
            word.len() >= LEAST_IN_NAME && memchr::memmem::find(&name, &word).is_some()
        };
        let found = self.words().iter().any(is_there);
        self.found |= found;
        found
    }

    /// Covers every word that is wholly there.
    pub(crate) fn cover(&mut self, bytes: &mut [u8]) {
        let end = bytes.len();
        self.cover_before(&self.words(), bytes, end);
    }

    /// Covers the words that begin before `end`; answers where what is undecided begins.
    fn cover_before(&mut self, words: &Words, bytes: &mut [u8], end: usize) -> usize {
        let mut decided = end;
        for word in words.iter() {
            let mut from = 0;
            while let Some(at) = memchr::memmem::find(&bytes[from..], word) {
                let start = from + at;
                if start >= end {
                    break;
                }
                let stop = start + word.len();
                bytes[start..stop].fill(COVER);
                decided = decided.max(stop);
                from = stop;
                self.found = true;
            }
        }
        decided
    }
}

/// How many bytes at the end are the beginning of a word.
fn open_end(words: &Words, bytes: &[u8]) -> usize {
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
