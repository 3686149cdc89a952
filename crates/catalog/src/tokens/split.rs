//! Splits a text as `o200k_base` does before it looks up tokens: words with the character before them, numbers of three digits,
//! punctuation, spaces. The published pattern is implemented by hand: it uses look-ahead, and a regular expression takes longer
//! to build than to use.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// The character classes of the pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Upper,
    Lower,
    /// Letters that have no case.
    Letter,
    /// Combining marks, which count as letters except at the start of a word.
    Joined,
    Number,
    Break,
    Space,
    Mark,
}

impl CharKind {
    fn classify(c: char) -> CharKind {
        match c {
            'a'..='z' => CharKind::Lower,
            'A'..='Z' => CharKind::Upper,
            '0'..='9' => CharKind::Number,
            '\r' | '\n' => CharKind::Break,
            _ if c.is_whitespace() => CharKind::Space,
            _ if c.is_ascii() => CharKind::Mark,
            _ => CharKind::beyond_ascii(c),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the pattern names these categories and no others"
    )]
    fn beyond_ascii(c: char) -> CharKind {
        use GeneralCategory as G;
        match c.general_category() {
            G::UppercaseLetter | G::TitlecaseLetter => CharKind::Upper,
            G::LowercaseLetter => CharKind::Lower,
            G::ModifierLetter | G::OtherLetter => CharKind::Letter,
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => CharKind::Joined,
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => CharKind::Number,
            _ => CharKind::Mark,
        }
    }

    fn may_begin(self) -> bool {
        matches!(self, CharKind::Upper | CharKind::Letter | CharKind::Joined)
    }

    fn may_follow(self) -> bool {
        matches!(self, CharKind::Lower | CharKind::Letter | CharKind::Joined)
    }

    fn is_space(self) -> bool {
        matches!(self, CharKind::Space | CharKind::Break)
    }
}

/// The pieces of `text` in order; joined, they give the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = Some(first_piece_length(rest)).filter(|length| *length > 0)?;
        let (piece, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(piece)
    })
}

/// The length of the first piece; 0 only for an empty text.
fn first_piece_length(text: &str) -> usize {
    let Some(c) = text.chars().next() else { return 0 };
    let kind = CharKind::classify(c);
    if let Some(length) = word_length(text, c, kind) {
        return length;
    }
    if kind == CharKind::Number {
        return run_length(text, Some(3), |kind| kind == CharKind::Number);
    }
    marks_length(text, c).unwrap_or_else(|| spaces_length(text))
}

/// A word, with one character before it that is neither a letter, a number nor a line break.
fn word_length(text: &str, c: char, kind: CharKind) -> Option<usize> {
    let before = if matches!(kind, CharKind::Space | CharKind::Mark | CharKind::Joined) {
        c.len_utf8()
    } else {
        0
    };
    let after = text.get(before..)?;
    // The pattern tries words that end in lower case before words of capitals, each first with the preceding character, then
    // without.
    let length = lowercase_length(after)
        .map(|length| before + length)
        .or_else(|| lowercase_length(text))
        .or_else(|| capitals_length(after).map(|length| before + length))
        .or_else(|| capitals_length(text))?;
    Some(length + contraction_length(text.get(length..)?))
}

/// Capitals, then at least one letter that may follow; the capitals give back letters if necessary.
fn lowercase_length(text: &str) -> Option<usize> {
    let run = run_length(text, None, CharKind::may_begin);
    let follows = run_length(text.get(run..)?, None, CharKind::may_follow);
    if follows > 0 {
        return Some(run + follows);
    }
    let mut last = text.get(..run)?.char_indices().rev();
    let (place, c) = last.find(|(_, c)| CharKind::classify(*c).may_follow())?;
    Some(place + c.len_utf8())
}

fn capitals_length(text: &str) -> Option<usize> {
    let run = run_length(text, None, CharKind::may_begin);
    let follows = run_length(text.get(run..)?, None, CharKind::may_follow);
    (run > 0).then_some(run + follows)
}

/// `'s`, `'re` and the like after a word.
fn contraction_length(text: &str) -> usize {
    let mut chars = text.chars();
    if chars.next() != Some('\'') {
        return 0;
    }
    let fold = |c: Option<char>| match c {
        Some('ſ') => Some('s'),
        other => other.map(|c| c.to_ascii_lowercase()),
    };
    let one = chars.next();
    match (fold(one), fold(chars.next())) {
        (Some('s' | 't' | 'm' | 'd'), _) => 1 + one.map_or(0, char::len_utf8),
        (Some('r' | 'v'), Some('e')) | (Some('l'), Some('l')) => 3,
        _ => 0,
    }
}

/// Punctuation with one space before it, and line breaks or slashes after it.
fn marks_length(text: &str, c: char) -> Option<usize> {
    let before = usize::from(c == ' ');
    let run = run_length(text.get(before..)?, None, |kind| {
        matches!(kind, CharKind::Mark | CharKind::Joined)
    });
    if run == 0 {
        return None;
    }
    let after = text.get(before + run..)?;
    let tail = after.len() - after.trim_start_matches(['\r', '\n', '/']).len();
    Some(before + run + tail)
}

/// White space: up to its last line break, otherwise all but the last character, which belongs to the next piece.
fn spaces_length(text: &str) -> usize {
    let run = run_length(text, None, CharKind::is_space);
    let spaces = text.get(..run).unwrap_or_default();
    if let Some(last) = spaces.rfind(['\r', '\n']) {
        return last + 1;
    }
    let last = spaces.chars().next_back().map_or(0, char::len_utf8);
    if run == text.len() || run == last {
        run
    } else {
        run - last
    }
}

/// The length in bytes of the leading characters of a kind, at most `most` of them.
fn run_length(text: &str, most: Option<usize>, is: impl Fn(CharKind) -> bool) -> usize {
    text.chars()
        .take(most.unwrap_or(usize::MAX))
        .take_while(|c| is(CharKind::classify(*c)))
        .map(char::len_utf8)
        .sum()
}
