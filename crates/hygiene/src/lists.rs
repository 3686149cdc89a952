//! Lists of words that say something, looked up by one question.

use std::collections::HashMap;

/// Words and what each is, as bits.
pub(crate) struct Lists(HashMap<&'static str, u16>);

/// The longest word of any list.
const LONGEST: usize = 24;

impl Lists {
    /// Lists of words in small letters with spaces between, each with its bits.
    pub(crate) fn new(lists: &[(u16, &'static str)]) -> Lists {
        let mut words = HashMap::new();
        for (bits, list) in lists {
            for word in list.split_ascii_whitespace() {
                *words.entry(word).or_default() |= bits;
            }
        }
        Lists(words)
    }

    /// What a word is, in any case.
    pub(crate) fn of(&self, word: &str) -> u16 {
        let mut small = [0; LONGEST];
        let Some(letters) = small.get_mut(..word.len()) else {
            return 0;
        };
        letters.copy_from_slice(word.as_bytes());
        letters.make_ascii_lowercase();
        let known = std::str::from_utf8(letters).ok().and_then(|word| self.0.get(word));
        known.copied().unwrap_or(0)
    }
}
