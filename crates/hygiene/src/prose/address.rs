//! Finds postal addresses in running text: numbers and capitalised words in a row, with a word or ending that streets
//! have.

use super::tokens::TextWord;
use super::{NON_NAME_WORDS, PARTICLE_WORDS, STREET_WORDS};

/// Most words of one address.
const MAX_ADDRESS_WORDS: usize = 24;

/// Returns the word after an address that begins here, if one does.
pub(super) fn address_end(words: &[TextWord<'_>], at: usize) -> Option<usize> {
    if !begins_address(words, at) {
        return None;
    }
    let mut end = at;
    let (mut numbers, mut names, mut sure) = (0, 0, false);
    while let Some(word) = words.get(end).filter(|_| end - at < MAX_ADDRESS_WORDS) {
        if end > at && !continues_address(word) {
            break;
        }
        if is_house_number(word) {
            numbers += 1;
        } else if word.is_in_lists(STREET_WORDS) || is_street(word) {
            sure = true;
            names += 1;
        } else if word.capital && !word.is_in_lists(NON_NAME_WORDS) && !word.number {
            names += 1;
        } else if !(word.is_in_lists(PARTICLE_WORDS) && end > at) {
            break;
        }
        end += 1;
    }
    while end > at && words[end - 1].is_in_lists(PARTICLE_WORDS) {
        end -= 1;
    }
    (numbers >= 1 && names >= 1 && (sure || numbers >= 2)).then_some(end)
}

/// Whether a word is a house number, a part of a house, or a street.
fn begins_address(words: &[TextWord<'_>], at: usize) -> bool {
    let word = &words[at];
    let next = words.get(at + 1);
    let numbered = next.is_some_and(|next| is_house_number(next) && continues_address(next));
    let named = next.is_some_and(|next| continues_address(next) && (next.capital || is_house_number(next)));
    is_house_number(word) && named
        || word.capital && (word.is_in_lists(STREET_WORDS) || is_street(word)) && (numbered || named)
}

/// Whether only spaces, commas, dots and line ends come before a word.
fn continues_address(word: &TextWord<'_>) -> bool {
    let gap = word.gap;
    gap.len() <= 8
        && !gap.is_empty()
        && gap
            .chars()
            .all(|letter| matches!(letter, ' ' | ',' | '.' | '\n' | '(' | ')'))
        && !gap.contains("\n\n")
}

/// Whether a word has at most five digits.
fn is_house_number(word: &TextWord<'_>) -> bool {
    word.number && word.text.len() <= 5 && word.text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word ends like street names in languages with compounds.
fn is_street(word: &TextWord<'_>) -> bool {
    const ENDS: [&str; 18] = [
        "strasse", "straße", "straat", "gasse", "weg", "platz", "laan", "gatan", "gata", "vägen", "vej", "veien",
        "gade", "katu", "tie", "kuja", "braut", "stien",
    ];
    word.text.len() >= 6 && ENDS.iter().any(|end| word.text.ends_with(end))
}
