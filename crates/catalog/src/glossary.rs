//! A glossary from Chinese technical words to the English words that tools use: many servers have descriptions in Chinese only,
//! but queries are in English.
//!
//! Each line of `glossary/chinese.txt` has a word of one to four characters in simplified Chinese, and its English words.

use std::collections::HashMap;
use std::sync::LazyLock;

static CHINESE_GLOSSARY: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("glossary/chinese.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// The most characters of a word in the glossary.
pub(crate) const MAX_WORD_CHARS: usize = 4;

/// The English words for a Chinese word, separated by spaces; `None` if the glossary does not have it.
pub(crate) fn translate_chinese(word: &str) -> Option<&'static str> {
    CHINESE_GLOSSARY.get(word).copied()
}

#[cfg(test)]
mod tests {
    use super::{CHINESE_GLOSSARY, MAX_WORD_CHARS};

    #[test]
    fn every_line_is_a_chinese_word_and_english_ones() {
        let lines = include_str!("glossary/chinese.txt").lines().count();
        assert_eq!(CHINESE_GLOSSARY.len(), lines, "a line without English, or a word twice");
        for (chinese, english) in &*CHINESE_GLOSSARY {
            assert!((1..=MAX_WORD_CHARS).contains(&chinese.chars().count()), "{chinese}");
            let is_word =
                |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            assert!(english.split(' ').all(is_word), "{chinese}: {english:?}");
        }
    }
}
