//! Splits a text as `o200k_base` does before it looks up tokens: words with the character before them, numbers of three digits,
//! punctuation, spaces. The published pattern is implemented by hand: it uses look-ahead, and a regular expression takes longer
//! to build than to use.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// The character classes of the pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            'a'..='z' => Kind::Lower,
            'A'..='Z' => Kind::Upper,
            '0'..='9' => Kind::Number,
            '\r' | '\n' => Kind::Break,
            _ if c.is_whitespace() => Kind::Space,
            _ if c.is_ascii() => Kind::Mark,
            _ => Kind::beyond_ascii(c),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the pattern names these categories and no others"
    )]
    fn beyond_ascii(c: char) -> Kind {
        use GeneralCategory as G;
        match c.general_category() {
            G::UppercaseLetter | G::TitlecaseLetter => Kind::Upper,
            G::LowercaseLetter => Kind::Lower,
            G::ModifierLetter | G::OtherLetter => Kind::Letter,
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Kind::Joined,
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => Kind::Number,
            _ => Kind::Mark,
        }
    }

    fn may_begin(self) -> bool {
        matches!(self, Kind::Upper | Kind::Letter | Kind::Joined)
    }

    fn may_follow(self) -> bool {
        matches!(self, Kind::Lower | Kind::Letter | Kind::Joined)
    }

    fn is_space(self) -> bool {
        matches!(self, Kind::Space | Kind::Break)
    }
}

/// The pieces of `text` in order; joined, they give the text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = Some(first(rest)).filter(|length| *length > 0)?;
        let (piece, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(piece)
    })
}

/// The length of the first piece; 0 only for an empty text.
fn first(text: &str) -> usize {
    let Some(c) = text.chars().next() else { return 0 };
    let kind = Kind::of(c);
    if let Some(length) = word(text, c, kind) {
        return length;
    }
    if kind == Kind::Number {
        return length(text, Some(3), |kind| kind == Kind::Number);
    }
    marks(text, c).unwrap_or_else(|| spaces(text))
}

/// A word, with one character before it that is neither a letter, a number nor a line break.
fn word(text: &str, c: char, kind: Kind) -> Option<usize> {
    let before = if matches!(kind, Kind::Space | Kind::Mark | Kind::Joined) {
        c.len_utf8()
    } else {
        0
    };
    let after = text.get(before..)?;
    // The pattern tries words that end in lower case before words of capitals, each first with the preceding character, then
    // without.
    let length = small(after)
        .map(|length| before + length)
        .or_else(|| small(text))
        .or_else(|| capitals(after).map(|length| before + length))
        .or_else(|| capitals(text))?;
    Some(length + contraction(text.get(length..)?))
}

/// Capitals, then at least one letter that may follow; the capitals give back letters if necessary.
fn small(text: &str) -> Option<usize> {
    let run = length(text, None, Kind::may_begin);
    let follows = length(text.get(run..)?, None, Kind::may_follow);
    if follows > 0 {
        return Some(run + follows);
    }
    let mut last = text.get(..run)?.char_indices().rev();
    let (place, c) = last.find(|(_, c)| Kind::of(*c).may_follow())?;
    Some(place + c.len_utf8())
}

fn capitals(text: &str) -> Option<usize> {
    let run = length(text, None, Kind::may_begin);
    let follows = length(text.get(run..)?, None, Kind::may_follow);
    (run > 0).then_some(run + follows)
}

/// `'s`, `'re` and the like after a word.
fn contraction(text: &str) -> usize {
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
fn marks(text: &str, c: char) -> Option<usize> {
    let before = usize::from(c == ' ');
    let run = length(text.get(before..)?, None, |kind| {
        matches!(kind, Kind::Mark | Kind::Joined)
    });
    if run == 0 {
        return None;
    }
    let after = text.get(before + run..)?;
    let tail = after.len() - after.trim_start_matches(['\r', '\n', '/']).len();
    Some(before + run + tail)
}

/// White space: up to its last line break, otherwise all but the last character, which belongs to the next piece.
fn spaces(text: &str) -> usize {
    let run = length(text, None, Kind::is_space);
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
fn length(text: &str, most: Option<usize>, is: impl Fn(Kind) -> bool) -> usize {
    text.chars()
        .take(most.unwrap_or(usize::MAX))
        .take_while(|c| is(Kind::of(*c)))
        .map(char::len_utf8)
        .sum()
}
