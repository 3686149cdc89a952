//! Finds words in bytes that come in pieces, and covers them. What is found keeps its length, so that a body that said how
//! long it is stays true; what cannot be part of a word is handed on at once, so that nothing that streams is held up.

use zeroize::Zeroizing;

/// What stands where a word stood.
const COVER: u8 = b'*';

/// Words to look for in one stream of bytes.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// The longest first: one may be part of another.
    words: Vec<Zeroizing<Vec<u8>>>,
    /// The end of what came, which could be the beginning of a word.
    held: Zeroizing<Vec<u8>>,
    found: bool,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.words.len())
    }
}

impl Mask {
    /// Looks for these; empty ones are nowhere.
    pub(crate) fn new(words: impl IntoIterator<Item = Vec<u8>>) -> Mask {
        let mut words: Vec<Zeroizing<Vec<u8>>> = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(Zeroizing::new)
            .collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        Mask {
            words,
            held: Zeroizing::default(),
            found: false,
        }
    }

    /// Whether there is nothing to look for.
    pub(crate) fn is_idle(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a word was in what came so far.
    pub(crate) fn found(&self) -> bool {
        self.found
    }

    /// Takes a piece, and answers what may go on.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.is_idle() {
            return piece.to_vec();
        }
        let mut all = std::mem::take(&mut *self.held);
        all.extend_from_slice(piece);
        self.cover(&mut all);
        let keep = self.open_end(&all);
        *self.held = all.split_off(all.len() - keep);
        all
    }

    /// Nothing more comes: what was held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.held)
    }

    /// Covers every word that is wholly there.
    pub(crate) fn cover(&mut self, bytes: &mut [u8]) {
        for word in &self.words {
            let mut from = 0;
            while let Some(at) = find(&bytes[from..], word) {
                let start = from + at;
                bytes[start..start + word.len()].fill(COVER);
                from = start + word.len();
                self.found = true;
            }
        }
    }

    /// How many bytes at the end are the beginning of a word.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let longest = |word: &Zeroizing<Vec<u8>>| {
            let most = (word.len() - 1).min(bytes.len());
            (1..=most)
                .rev()
                .find(|count| word.starts_with(&bytes[bytes.len() - count..]))
        };
        self.words.iter().filter_map(longest).max().unwrap_or(0)
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, word)
}

#[cfg(test)]
mod tests;
