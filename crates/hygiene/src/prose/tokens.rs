//! Splits a text into words, with the properties that the rules need.

use crate::word_lists::WordLists;

use super::dictionary::{NameFlags, look_up};

/// A word, a number, or a letter with a dot.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextWord<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) known: NameFlags,
    lists: u16,
    pub(super) capital: bool,
    pub(super) number: bool,
    /// The text between this word and the one before.
    pub(super) gap: &'t str,
}

impl TextWord<'_> {
    /// Whether only spaces in the same line, or the dot of an initial, come before it.
    pub(super) fn follows_directly(&self) -> bool {
        matches!(self.gap, " " | "  " | ". " | "." | "\u{a0}")
    }

    /// Whether a sentence or line begins with it.
    pub(super) fn opens_sentence(&self) -> bool {
        self.gap.is_empty() || self.gap.contains(['\n', '!', '?', ':', '"', '“', '>', '(', '.', ';'])
    }

    pub(super) fn opens_line(&self) -> bool {
        self.start == 0 || self.gap.contains('\n')
    }

    pub(super) fn is_any_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.eq_ignore_ascii_case(word))
    }

    /// Whether it is in any of these lists.
    pub(super) fn is_in_lists(&self, lists: u16) -> bool {
        self.lists & lists != 0
    }

    /// Whether it is a single capital, as in `Faina D. Yefremova`.
    pub(super) fn is_initial(&self) -> bool {
        self.capital && self.text.chars().count() == 1
    }

    /// Whether it is all capitals, like places and abbreviations.
    pub(super) fn is_all_caps(&self) -> bool {
        self.text.chars().count() > 1 && !self.text.chars().any(char::is_lowercase)
    }
}

/// Splits a text into words. Names are looked up for capitalised words, or for all words if the text has no capitals.
pub(super) fn split_words<'t>(text: &'t str, lists: &WordLists) -> Vec<TextWord<'t>> {
    let small = !text.chars().any(char::is_uppercase);
    let mut words: Vec<TextWord<'t>> = Vec::new();
    let mut done = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        if !letter.is_alphanumeric() {
            continue;
        }
        let mut end = start + letter.len_utf8();
        while let Some((index, next)) = letters.peek().copied() {
            let joins = next.is_alphanumeric()
                || matches!(next, '\'' | '’' | '-') && text[index + next.len_utf8()..].starts_with(char::is_alphabetic);
            if !joins {
                break;
            }
            end = index + next.len_utf8();
            letters.next();
        }
        let word = strip_possessive(&text[start..end]);
        end = start + word.len();
        let number = word.chars().any(|letter| letter.is_ascii_digit());
        let capital = letter.is_uppercase();
        let known = if number || !capital && !small || word.len() < 2 {
            NameFlags::default()
        } else {
            look_up(word)
        };
        words.push(TextWord {
            text: word,
            start,
            end,
            known,
            lists: lists.flags(word),
            capital,
            number,
            gap: &text[done..start],
        });
        done = end;
    }
    words
}

/// Removes a possessive ending: `Arne's`.
fn strip_possessive(word: &str) -> &str {
    ["'s", "’s", "'S"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word)
}
