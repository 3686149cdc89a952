//! Floods: how much of a text or value is shown, and a notice of what was left out that no data can imitate. Output is
//! taken in pieces and only what is kept is held, so its size does not matter.

mod clean;
mod json;
mod text;

pub use clean::Cleaner;
pub use json::JsonCap;
pub use text::{Keep, TextCap};

/// How much is shown at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in all, notices aside.
    pub bytes: usize,
    /// Lines of a text; items of any list and members of any object in JSON.
    pub rows: usize,
    /// Levels of lists and objects within each other.
    pub depth: usize,
    /// Bytes of one string in JSON or of one line of a text.
    pub string: usize,
}

/// What is shown, and how much is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped<T> {
    /// What is shown, with notices where something is missing.
    pub shown: T,
    /// What is missing.
    pub left_out: LeftOut,
}

/// How much was left out or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Bytes that came in.
    pub seen: u64,
    /// Bytes of them that are not shown.
    pub bytes: u64,
    /// Rows that are not shown.
    pub rows: u64,
    /// Strings or lines that were cut.
    pub cut: u64,
    /// Values that lay too deep.
    pub deep: u64,
    /// Escapes, control characters, wrong bytes and imitated notices that were made harmless.
    pub neutralised: u64,
    /// Where JSON stopped being JSON, if it did.
    pub broken_at: Option<u64>,
}

impl LeftOut {
    /// Whether everything is shown.
    pub fn is_whole(&self) -> bool {
        self.bytes == 0 && self.rows == 0 && self.cut == 0 && self.deep == 0 && self.broken_at.is_none()
    }
}

/// Where more is than what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At<'a> {
    /// All of it.
    Whole(&'a str),
    /// As much as was kept; the rest is nowhere.
    Kept(&'a str),
}

/// A notice: what it says in brackets that no text of others keeps.
fn notice(what: &str, at: Option<At<'_>>) -> String {
    let mut words = String::from("⟦ringfence: ");
    words.push_str(what);
    if let Some(at) = at {
        let (is, place) = match at {
            At::Whole(place) => ("the whole is", place),
            At::Kept(place) => ("there was more, and as much as was kept is", place),
        };
        words.push_str("; ");
        words.push_str(is);
        words.push_str(" at ");
        words.extend(place.chars().filter(|letter| !letter.is_control()).map(clean::bracket));
    }
    words.push('⟧');
    words
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `usize` as `u64`, which holds it on every machine this runs on.
fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The most of a text that is kept when it must be cut at a byte: it ends before the word or number that the cut would
/// fall into, so that half a card is never shown where a whole one would have been hidden.
fn cut_before(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    without_half(&text[..end])
}

/// A text that was cut somewhere, without the line that the cut fell into; where that is most of it, without the word or number.
pub fn whole_lines(text: &str) -> &str {
    match text.rfind('\n') {
        Some(end) if end * 2 >= text.len() => &text[..=end],
        Some(_) | None => without_half(text),
    }
}

/// What is left of a text that was cut without the word or number that may be half.
fn without_half(kept: &str) -> &str {
    let word = kept.rfind(char::is_whitespace).map_or("", |space| &kept[..space]);
    let number = |letter: char| {
        letter.is_ascii_digit()
            || letter.is_whitespace() && letter != '\n'
            || matches!(
                letter,
                '-' | '.' | '/' | '(' | ')' | '+' | '\u{2010}'..='\u{2015}' | '\u{2212}'
            )
    };
    let uncut = |text| before_account(before_account(text).trim_end_matches(number));
    let whole = uncut(word);
    // A text without spaces or words is cut where it must be, less what could be a value.
    if whole.len() * 2 >= kept.len() {
        return whole;
    }
    let mut end = kept.len().saturating_sub(LONGEST_VALUE);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    uncut(&kept[..end])
}

/// A text less the beginning of a bank account's number that it ends with, in groups of letters and digits.
fn before_account(text: &str) -> &str {
    let mut end = text.len();
    let mut letters = 0;
    // The longest number is of 34 letters, in nine groups.
    for _ in 0..9 {
        let start = text[..end].rfind(char::is_whitespace).map_or(0, |space| {
            space + text[space..].chars().next().map_or(1, char::len_utf8)
        });
        let group = text[start..end].trim_start_matches(|letter: char| !letter.is_alphanumeric());
        if group.is_empty() || !group.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return text;
        }
        letters += group.len();
        if crate::scan::account_length(group).is_some_and(|whole| letters < whole) {
            return text[..end - group.len()].trim_end();
        }
        let before = text[..start].trim_end();
        if start - before.len() > 4 {
            return text;
        }
        end = before.len();
    }
    text
}

/// Longer than an account, a card or most addresses.
const LONGEST_VALUE: usize = 64;

#[cfg(test)]
mod tests;
