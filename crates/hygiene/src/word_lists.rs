//! Word lists, searched with one lookup.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Words with the bits of the lists that contain them. The words are built in, so nobody can choose colliding ones.
pub(crate) struct WordLists {
    words: HashMap<&'static [u8], u16, BuildHasherDefault<ShortWordHasher>>,
    /// For each first byte, the lengths of the words that begin with it: most words are ruled out by that alone.
    lengths: [u32; 256],
}

/// A cheap hash for short words.
#[derive(Default)]
pub(crate) struct ShortWordHasher(u64);

impl Hasher for ShortWordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        // A hash table takes its slot from the low bits, and its tag from the high ones.
        self.0 ^ self.0 >> 32
    }
}

/// Most bytes of a word in any list.
const MAX_WORD_BYTES: usize = 24;

impl WordLists {
    /// Creates the lists from lower-case words separated by spaces, each with its bits.
    pub(crate) fn new(lists: &[(u16, &'static str)]) -> WordLists {
        let mut all = WordLists {
            words: HashMap::default(),
            lengths: [0; 256],
        };
        for (bits, list) in lists {
            for word in list.split_ascii_whitespace().map(str::as_bytes) {
                *all.words.entry(word).or_default() |= bits;
                all.lengths[usize::from(word[0])] |= 1 << word.len();
            }
        }
        all
    }

    /// Returns the bits of a word, in any case.
    pub(crate) fn flags(&self, word: &str) -> u16 {
        let length = word.len();
        let first = word.bytes().next().map_or(0, |first| first.to_ascii_lowercase());
        if length > MAX_WORD_BYTES || self.lengths[usize::from(first)] & 1 << length == 0 {
            return 0;
        }
        let mut small = [0; MAX_WORD_BYTES];
        let letters = &mut small[..length];
        letters.copy_from_slice(word.as_bytes());
        letters.make_ascii_lowercase();
        self.words.get(&*letters).copied().unwrap_or(0)
    }
}
