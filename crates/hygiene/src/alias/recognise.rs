//! Recognises aliases in a text, as they were issued or as a model changed them: case, spaces, brackets, escapes.

use super::table::{AliasCode, Aliases, CODE_LENGTH, code_letter};

/// An alias found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecognisedAlias {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The entry it stands for; `None` if the alias is unknown.
    pub(super) entry: Option<usize>,
    /// Whether it was percent-encoded for a URL.
    pub(super) encoded: bool,
}

/// Spellings of the brackets. An unknown alias counts as one only in the first set.
const OWN_BRACKETS: [(&str, &str); 4] = [
    ("‹", "›"),
    ("\\u2039", "\\u203a"),
    ("&lsaquo;", "&rsaquo;"),
    ("%E2%80%B9", "%E2%80%BA"),
];
const FOREIGN_BRACKETS: [(&str, &str); 5] = [("<", ">"), ("«", "»"), ("&lt;", "&gt;"), ("〈", "〉"), ("⟨", "⟩")];

/// Most letters of a kind word.
const MAX_WORD_BYTES: usize = 12;

/// Finds everything in a text that is an alias or looks like one, in order.
pub(super) fn recognise(aliases: &Aliases, text: &str) -> Vec<RecognisedAlias> {
    let mut seen: Vec<RecognisedAlias> = Vec::new();
    let mut floor = 0;
    for (at, colon) in find_colons(text) {
        if at < floor {
            continue;
        }
        if let Some(one) = alias_around(aliases, text, floor, at, at + colon) {
            floor = one.end;
            seen.push(one);
        }
    }
    seen
}

/// Whether a text contains something that is written like an alias, of any table.
pub fn resembles_alias(text: &str) -> bool {
    find_colons(text).any(|(at, colon)| {
        let before = text[..at].trim_end_matches(SPACES);
        let letters = before.bytes().rev().take(MAX_WORD_BYTES + 1);
        let length = letters.take_while(u8::is_ascii_alphabetic).count();
        let open_end = before[..before.len() - length].trim_end_matches(SPACES);
        let closes = |close: &str| {
            text_before_close(text, at + colon, close).is_some_and(|(inner, _)| parse_code(inner).is_some())
        };
        let mut brackets = OWN_BRACKETS.iter().chain(&FOREIGN_BRACKETS);
        (1..=MAX_WORD_BYTES).contains(&length)
            && brackets.any(|(open, close)| ends_with(open_end, open) && closes(close))
    })
}

/// Finds colons, plain or encoded, with their lengths.
fn find_colons(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter_map(move |(at, byte)| match byte {
        b':' => Some((at, 1)),
        b'%' if bytes[at..].len() >= 3 && bytes[at + 1..at + 3].eq_ignore_ascii_case(b"3a") => Some((at, 3)),
        _ => None,
    })
}

/// Finds an alias around a colon that does not begin before `floor`.
fn alias_around(aliases: &Aliases, text: &str, floor: usize, colon: usize, after: usize) -> Option<RecognisedAlias> {
    let word_end = floor + text[floor..colon].trim_end_matches(SPACES).len();
    let letters = text.as_bytes()[floor..word_end].iter().rev().take(MAX_WORD_BYTES + 1);
    let length = letters.take_while(|byte| byte.is_ascii_alphabetic()).count();
    if length == 0 || length > MAX_WORD_BYTES {
        return None;
    }
    let word = &text[word_end - length..word_end];
    let before = text[floor..word_end - length].trim_end_matches(SPACES);
    let open_end = floor + before.len();
    for (open, close) in OWN_BRACKETS.iter().filter(|(open, _)| ends_with(before, open)) {
        let Some((inner, end)) = text_before_close(text, after, close) else {
            continue;
        };
        let entry = parse_code(inner).and_then(|code| aliases.entry_index(word, code));
        let pretends = entry.is_some() || aliases.has_word(word);
        return pretends.then_some(RecognisedAlias {
            start: open_end - open.len(),
            end,
            entry,
            encoded: open.starts_with('%'),
        });
    }
    for (open, close) in FOREIGN_BRACKETS.iter().filter(|(open, _)| ends_with(before, open)) {
        let Some((inner, end)) = text_before_close(text, after, close) else {
            continue;
        };
        let entry = parse_code(inner).and_then(|code| aliases.entry_index(word, code))?;
        return Some(RecognisedAlias {
            start: open_end - open.len(),
            end,
            entry: Some(entry),
            encoded: false,
        });
    }
    let lead = text[after..].len() - text[after..].trim_start_matches(' ').len();
    let (start, end) = (word_end - length, after + lead + CODE_LENGTH);
    let free = !text[..start].ends_with(is_joined) && !text.get(end..)?.starts_with(is_joined) && lead < 2;
    let entry = parse_code(text.get(after + lead..end)?).and_then(|code| aliases.entry_index(word, code))?;
    free.then_some(RecognisedAlias {
        start,
        end,
        entry: Some(entry),
        encoded: false,
    })
}

const SPACES: [char; 2] = [' ', '\u{a0}'];

/// Returns the text before a closing bracket if it may be a code, and where the bracket ends.
fn text_before_close<'t>(text: &'t str, from: usize, close: &str) -> Option<(&'t str, usize)> {
    let code = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
    let length = text.as_bytes()[from..]
        .iter()
        .take(MAX_INNER_BYTES)
        .take_while(|byte| code(byte))
        .count();
    let inner = &text[from..from + length];
    // The bracket does not begin with a letter, also when written as `&rsaquo;` or `\u203a`.
    let good = !inner.trim().is_empty() && starts_with(&text[from + length..], close);
    good.then(|| (inner, from + length + close.len()))
}

/// Most bytes between brackets that may be a code.
const MAX_INNER_BYTES: usize = 32;

fn is_joined(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '‹' | '›')
}

/// Parses the letters of a code, in any case, with or without spaces between them.
fn parse_code(inner: &str) -> Option<AliasCode> {
    let mut code = [0; CODE_LENGTH];
    let mut count = 0;
    for byte in inner.bytes().filter(|byte| *byte != b' ') {
        *code.get_mut(count)? = code_letter(byte)?;
        count += 1;
    }
    (count == CODE_LENGTH).then_some(code)
}

fn ends_with(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start
        .and_then(|start| text.get(start..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}
