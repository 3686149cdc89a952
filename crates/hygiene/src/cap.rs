//! Caps long output: limits how much of a text or value is shown, with notices that no data can imitate. Output is
//! taken in pieces and only the shown part is held, so its size does not matter.

mod clean;
mod json;
mod text;

pub use clean::Cleaner;
pub use json::JsonCap;
pub use text::{KeptPart, TextCap};

/// Limits on the shown output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapLimits {
    /// Bytes in all, not counting notices.
    pub bytes: usize,
    /// Lines of a text; items of any list and members of any object in JSON.
    pub rows: usize,
    /// Nesting levels of lists and objects.
    pub depth: usize,
    /// Bytes of one string in JSON or of one line of a text.
    pub string: usize,
}

/// The shown output, with the amounts that are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped<T> {
    /// The shown output, with notices where something is missing.
    pub shown: T,
    /// The amounts that are missing or changed.
    pub left_out: OmittedCounts,
}

/// How much was omitted or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OmittedCounts {
    /// Bytes of the input.
    pub seen: u64,
    /// Bytes of the input that are not shown.
    pub bytes: u64,
    /// Rows that are not shown.
    pub rows: u64,
    /// Strings or lines that were truncated.
    pub cut: u64,
    /// Values that were nested too deeply.
    pub deep: u64,
    /// Escapes, control characters, invalid bytes and imitated notices that were neutralised.
    pub neutralised: u64,
    /// Where the input stopped being JSON, if it did.
    pub broken_at: Option<u64>,
}

impl OmittedCounts {
    /// Whether everything is shown.
    pub fn is_whole(&self) -> bool {
        self.bytes == 0 && self.rows == 0 && self.cut == 0 && self.deep == 0 && self.broken_at.is_none()
    }
}

/// Where the caller can find more than is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoreLocation<'a> {
    /// The place where the whole output is.
    Whole(&'a str),
    /// The place where a part of the output was kept; the rest is lost.
    Kept(&'a str),
}

/// Formats a notice, in brackets that are removed from all other text.
fn format_notice(what: &str, at: Option<MoreLocation<'_>>) -> String {
    let mut words = String::from("⟦ringfence: ");
    words.push_str(what);
    if let Some(at) = at {
        let (is, place) = match at {
            MoreLocation::Whole(place) => ("the whole is", place),
            MoreLocation::Kept(place) => ("there was more, and as much as was kept is", place),
        };
        words.push_str("; ");
        words.push_str(is);
        words.push_str(" at ");
        words.extend(
            place
                .chars()
                .filter(|letter| !letter.is_control())
                .map(clean::plain_bracket),
        );
    }
    words.push('⟧');
    words
}

/// Formats a number with commas between thousands.
fn group_thousands(number: u64) -> String {
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

/// Converts `usize` to `u64`, which holds it on every supported machine.
fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Truncates a text at a byte limit, before the word or number that the cut would split: half a card number would be
/// shown where a whole one is hidden.
fn truncate_at_word(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    trim_partial_word(&text[..end])
}

/// Removes the incomplete last line of a text that was cut; if that is most of the text, only the incomplete word or
/// number.
pub fn trim_partial_line(text: &str) -> &str {
    match text.rfind('\n') {
        Some(end) if end * 2 >= text.len() => &text[..=end],
        Some(_) | None => trim_partial_word(text),
    }
}

/// Removes the word or number at the end of a cut text, which may be incomplete.
fn trim_partial_word(kept: &str) -> &str {
    let word = kept.rfind(char::is_whitespace).map_or("", |space| &kept[..space]);
    let number = |letter: char| {
        letter.is_ascii_digit()
            || letter.is_whitespace() && letter != '\n'
            || matches!(
                letter,
                '-' | '.' | '/' | '(' | ')' | '+' | '\u{2010}'..='\u{2015}' | '\u{2212}'
            )
    };
    let uncut = |text| trim_partial_account(trim_partial_account(text).trim_end_matches(number));
    let whole = uncut(word);
    // A text without spaces or words is cut anyway, less what may be a value.
    if whole.len() * 2 >= kept.len() {
        return whole;
    }
    let mut end = kept.len().saturating_sub(MAX_VALUE_BYTES);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    uncut(&kept[..end])
}

/// Removes the start of a bank account number at the end of a text, in groups of letters and digits.
fn trim_partial_account(text: &str) -> &str {
    let mut end = text.len();
    let mut letters = 0;
    // The longest number has 34 letters, in nine groups.
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

/// Longer than an account number, a card number or most addresses.
const MAX_VALUE_BYTES: usize = 64;

#[cfg(test)]
mod tests;
