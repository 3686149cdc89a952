//! Finds postal addresses in running text: numbers and capitalised words in a row, with a word or ending that streets
//! have.

use super::words::Word;
use super::{NEVER, PARTICLES, STREETS};

/// Most words of one address.
const LONGEST: usize = 24;

/// Returns the word after an address that begins here, if one does.
pub(super) fn at(words: &[Word<'_>], at: usize) -> Option<usize> {
    if !begins(words, at) {
        return None;
    }
    let mut end = at;
    let (mut numbers, mut names, mut sure) = (0, 0, false);
    while let Some(word) = words.get(end).filter(|_| end - at < LONGEST) {
        if end > at && !goes_on(word) {
            break;
        }
        if is_house(word) {
            numbers += 1;
        } else if word.has(STREETS) || is_street(word) {
            sure = true;
            names += 1;
        } else if word.capital && !word.has(NEVER) && !word.number {
            names += 1;
        } else if !(word.has(PARTICLES) && end > at) {
            break;
        }
        end += 1;
    }
    while end > at && words[end - 1].has(PARTICLES) {
        end -= 1;
    }
    (numbers >= 1 && names >= 1 && (sure || numbers >= 2)).then_some(end)
}

/// Whether a word is a house number, a part of a house, or a street.
fn begins(words: &[Word<'_>], at: usize) -> bool {
    let word = &words[at];
    let next = words.get(at + 1);
    let numbered = next.is_some_and(|next| is_house(next) && goes_on(next));
    let named = next.is_some_and(|next| goes_on(next) && (next.capital || is_house(next)));
    is_house(word) && named || word.capital && (word.has(STREETS) || is_street(word)) && (numbered || named)
}

/// Whether only spaces, commas, dots and line ends come before a word.
fn goes_on(word: &Word<'_>) -> bool {
    let gap = word.gap;
    gap.len() <= 8
        && !gap.is_empty()
        && gap
            .chars()
            .all(|letter| matches!(letter, ' ' | ',' | '.' | '\n' | '(' | ')'))
        && !gap.contains("\n\n")
}

/// Whether a word has at most five digits.
fn is_house(word: &Word<'_>) -> bool {
    word.number && word.text.len() <= 5 && word.text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word ends like street names in languages with compounds.
fn is_street(word: &Word<'_>) -> bool {
    const ENDS: [&str; 18] = [
        "strasse", "straße", "straat", "gasse", "weg", "platz", "laan", "gatan", "gata", "vägen", "vej", "veien",
        "gade", "katu", "tie", "kuja", "braut", "stien",
    ];
    word.text.len() >= 6 && ENDS.iter().any(|end| word.text.ends_with(end))
}
