//! Splits text into terms: stemmed words of names and sentences, pairs of characters of scripts without spaces, and character
//! grams.

use rust_stemmers::{Algorithm, Stemmer};

use crate::lexicon;

/// The most characters of a word; a longer one is ignored.
const WORD: usize = 40;
/// The length of a character gram.
const GRAM: usize = 4;

/// Calls `word` for each word of `text` in lower case, as often as it occurs: `getUserName` and `get_user_name` have three words.
/// Runs of Han and kana give pairs of neighbouring characters, and their English words in the glossary.
pub(crate) fn words(text: &str, mut word: impl FnMut(&str)) {
    measured_words(text, |one, _| word(one));
}

/// Like `words`, with the share of each word in the text's length. A word counts as one, and so do all English words of one
/// Chinese word together. The pairs count as zero, because they overlap and accompany those.
pub(crate) fn measured_words(text: &str, mut word: impl FnMut(&str, f32)) {
    let mut current = String::new();
    let mut run: Vec<char> = Vec::new();
    let mut before = Shape::Other;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let shape = Shape::of(c);
        let next = chars.peek().map_or(Shape::Other, |c| Shape::of(*c));
        let hump = shape == Shape::Upper
            && (matches!(before, Shape::Lower | Shape::Digit) || before == Shape::Upper && next == Shape::Lower);
        if hump || !matches!(shape, Shape::Upper | Shape::Lower | Shape::Digit) {
            end_word(&mut current, &mut word);
        }
        match shape {
            Shape::Wide => run.push(c),
            Shape::Upper | Shape::Lower | Shape::Digit => {
                if current.len() < WORD {
                    current.extend(c.to_lowercase());
                }
            }
            Shape::Other => {}
        }
        if shape != Shape::Wide || run.len() >= WORD {
            end_run(&mut run, &mut word);
        }
        before = shape;
    }
    end_word(&mut current, &mut word);
    end_run(&mut run, &mut word);
}

fn end_word(current: &mut String, word: &mut impl FnMut(&str, f32)) {
    if !current.is_empty() {
        word(current, 1.0);
        current.clear();
    }
}

fn end_run(run: &mut Vec<char>, word: &mut impl FnMut(&str, f32)) {
    if run.is_empty() {
        return;
    }
    let text: String = run.iter().collect();
    if run.len() == 1 {
        word(&text, 0.0);
    }
    for pair in run.windows(2) {
        word(&pair.iter().collect::<String>(), 0.0);
    }
    lexicon::gloss(&text, &mut *word);
    run.clear();
}

/// The role of a character in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Upper,
    Lower,
    Digit,
    /// A character of a script without spaces.
    Wide,
    Other,
}

impl Shape {
    fn of(c: char) -> Shape {
        match c {
            'a'..='z' => Shape::Lower,
            'A'..='Z' => Shape::Upper,
            '0'..='9' => Shape::Digit,
            _ if c.is_ascii() => Shape::Other,
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{323af}' => Shape::Wide,
            _ if c.is_uppercase() => Shape::Upper,
            _ if c.is_alphabetic() => Shape::Lower,
            _ if c.is_numeric() => Shape::Digit,
            _ => Shape::Other,
        }
    }
}

/// Turns words into terms, in the same way for tools and for queries.
pub(crate) struct Stems(Stemmer);

impl std::fmt::Debug for Stems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stems")
    }
}

impl Stems {
    pub(crate) fn new() -> Stems {
        Stems(Stemmer::create(Algorithm::English))
    }

    /// The stem of a word; `None` for a stop word.
    pub(crate) fn term(&self, word: &str) -> Option<String> {
        let single = word.len() == 1 && !word.as_bytes()[0].is_ascii_digit();
        if single || lexicon::is_stop(word) {
            return None;
        }
        Some(self.stem(word))
    }

    /// The stem of any word.
    pub(crate) fn stem(&self, word: &str) -> String {
        self.0.stem(word).into_owned()
    }
}

/// Calls `gram` for each four neighbouring characters of a word with its ends marked. A gram is a number made of its characters.
pub(crate) fn grams(word: &str, mut gram: impl FnMut(u64)) {
    let mut window = [' '; GRAM];
    let mut length = 0usize;
    for c in std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')) {
        window.rotate_left(1);
        window[GRAM - 1] = c;
        length += 1;
        if length >= GRAM {
            gram(key(&window));
        }
    }
    if length < GRAM {
        gram(key(&window));
    }
}

/// Sixteen bits of each character. Characters beyond share numbers with others, which is harmless.
fn key(window: &[char; GRAM]) -> u64 {
    window
        .iter()
        .fold(0, |key, c| key << 16 | u64::from(u32::from(*c) & 0xffff))
}

#[cfg(test)]
mod tests;
