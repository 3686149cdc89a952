//! Splits text into terms: stemmed words of names and sentences, pairs of characters of scripts without spaces, and character
//! grams.

use rust_stemmers::{Algorithm, Stemmer};

use crate::lexicon;

/// The most characters of a word; a longer one is ignored.
const MAX_WORD_CHARS: usize = 40;
/// The length of a character gram.
const GRAM_LENGTH: usize = 4;

/// Calls `word` for each word of `text` in lower case, as often as it occurs: `getUserName` and `get_user_name` have three words.
/// Runs of Han and kana give pairs of neighbouring characters, and their English words in the glossary.
pub(crate) fn for_each_word(text: &str, mut word: impl FnMut(&str)) {
    for_each_weighted_word(text, |one, _| word(one));
}

/// Like `words`, with the share of each word in the text's length. A word counts as one, and so do all English words of one
/// Chinese word together. The pairs count as zero, because they overlap and accompany those.
pub(crate) fn for_each_weighted_word(text: &str, mut word: impl FnMut(&str, f32)) {
    let mut current = String::new();
    let mut run: Vec<char> = Vec::new();
    let mut before = WordCharKind::Other;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let shape = WordCharKind::classify(c);
        let next = chars.peek().map_or(WordCharKind::Other, |c| WordCharKind::classify(*c));
        let hump = shape == WordCharKind::Upper
            && (matches!(before, WordCharKind::Lower | WordCharKind::Digit)
                || before == WordCharKind::Upper && next == WordCharKind::Lower);
        if hump || !matches!(shape, WordCharKind::Upper | WordCharKind::Lower | WordCharKind::Digit) {
            finish_word(&mut current, &mut word);
        }
        match shape {
            WordCharKind::Wide => run.push(c),
            WordCharKind::Upper | WordCharKind::Lower | WordCharKind::Digit => {
                if current.len() < MAX_WORD_CHARS {
                    current.extend(c.to_lowercase());
                }
            }
            WordCharKind::Other => {}
        }
        if shape != WordCharKind::Wide || run.len() >= MAX_WORD_CHARS {
            finish_run(&mut run, &mut word);
        }
        before = shape;
    }
    finish_word(&mut current, &mut word);
    finish_run(&mut run, &mut word);
}

fn finish_word(current: &mut String, word: &mut impl FnMut(&str, f32)) {
    if !current.is_empty() {
        word(current, 1.0);
        current.clear();
    }
}

fn finish_run(run: &mut Vec<char>, word: &mut impl FnMut(&str, f32)) {
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
    lexicon::gloss_chinese(&text, &mut *word);
    run.clear();
}

/// The role of a character in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordCharKind {
    Upper,
    Lower,
    Digit,
    /// A character of a script without spaces.
    Wide,
    Other,
}

impl WordCharKind {
    fn classify(c: char) -> WordCharKind {
        match c {
            'a'..='z' => WordCharKind::Lower,
            'A'..='Z' => WordCharKind::Upper,
            '0'..='9' => WordCharKind::Digit,
            _ if c.is_ascii() => WordCharKind::Other,
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{323af}' => WordCharKind::Wide,
            _ if c.is_uppercase() => WordCharKind::Upper,
            _ if c.is_alphabetic() => WordCharKind::Lower,
            _ if c.is_numeric() => WordCharKind::Digit,
            _ => WordCharKind::Other,
        }
    }
}

/// Turns words into terms, in the same way for tools and for queries.
pub(crate) struct TermStemmer(Stemmer);

impl std::fmt::Debug for TermStemmer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stems")
    }
}

impl TermStemmer {
    pub(crate) fn new() -> TermStemmer {
        TermStemmer(Stemmer::create(Algorithm::English))
    }

    /// The stem of a word; `None` for a stop word.
    pub(crate) fn term(&self, word: &str) -> Option<String> {
        let single = word.len() == 1 && !word.as_bytes()[0].is_ascii_digit();
        if single || lexicon::is_stop_word(word) {
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
pub(crate) fn for_each_gram(word: &str, mut gram: impl FnMut(u64)) {
    let mut window = [' '; GRAM_LENGTH];
    let mut length = 0usize;
    for c in std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')) {
        window.rotate_left(1);
        window[GRAM_LENGTH - 1] = c;
        length += 1;
        if length >= GRAM_LENGTH {
            gram(gram_key(&window));
        }
    }
    if length < GRAM_LENGTH {
        gram(gram_key(&window));
    }
}

/// Sixteen bits of each character. Characters beyond share numbers with others, which is harmless.
fn gram_key(window: &[char; GRAM_LENGTH]) -> u64 {
    window
        .iter()
        .fold(0, |key, c| key << 16 | u64::from(u32::from(*c) & 0xffff))
}

#[cfg(test)]
mod tests;
