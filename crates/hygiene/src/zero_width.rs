//! Readable text: without zero-width characters (joiners, soft hyphens, variation selectors), with full-width letters
//! and digits as plain ones, and with percent-encoding decoded. A text is searched as it is and in these readings;
//! the output keeps all of its characters.

use crate::finding::{SensitiveSpan, resolve_overlaps};

/// Returns the findings in a text as it is and in its readings.
pub(crate) fn find_in_readings(text: &str, find: impl Fn(&str) -> Vec<SensitiveSpan>) -> Vec<SensitiveSpan> {
    let mut found = find(text);
    let before = found.len();
    if has_invisible(text) {
        find_in_reading(&ReadableText::new(text, Reading::Seen), 0, &find, &mut found);
    }
    let mut from = if text.contains('%') || text.contains('+') {
        0
    } else {
        text.len()
    };
    while let Some((start, end)) = next_encoded_word(text, from) {
        find_in_reading(
            &ReadableText::new(&text[start..end], Reading::Decoded),
            start,
            &find,
            &mut found,
        );
        from = end;
    }
    if found.len() == before {
        found
    } else {
        resolve_overlaps(text, found)
    }
}

/// Adds the findings in the reading of a part that begins at `offset`.
fn find_in_reading(
    seen: &ReadableText,
    offset: usize,
    find: impl Fn(&str) -> Vec<SensitiveSpan>,
    found: &mut Vec<SensitiveSpan>,
) {
    found.extend(find(&seen.text).into_iter().filter_map(|one| {
        let (start, end) = seen.source_span(one.start, one.end)?;
        Some(SensitiveSpan {
            start: offset + start,
            end: offset + end,
            ..one
        })
    }));
}

/// How a text is converted to readable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Without zero-width characters, and with plain letters for full-width ones.
    Seen,
    /// With percent-encoded characters decoded.
    Decoded,
}

/// A text as it reads, with a map back to the source.
struct ReadableText {
    text: String,
    /// Marks where a range begins that is unchanged, or that is one letter for a longer one: here, and in the source.
    marks: Vec<PositionMark>,
}

#[derive(Debug, Clone, Copy)]
struct PositionMark {
    here: usize,
    whole: usize,
    /// The length in the source of the letter that begins here, if it was replaced.
    letter: Option<usize>,
}

impl ReadableText {
    fn new(text: &str, reading: Reading) -> ReadableText {
        let mut seen = ReadableText {
            text: String::with_capacity(text.len()),
            marks: vec![PositionMark {
                here: 0,
                whole: 0,
                letter: None,
            }],
        };
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let length = letter.len_utf8();
            let decoded = match reading {
                Reading::Decoded => decode_escape(&text.as_bytes()[at..]),
                Reading::Seen => plain_letter(letter).map(|plain| (plain, length)),
            };
            if let Some((plain, length)) = decoded {
                at = seen.push_plain(plain, at, length);
            } else if is_invisible(letter) {
                at += length;
                seen.push_mark(at, None);
            } else {
                seen.text.push(letter);
                at += length;
            }
        }
        seen
    }

    /// Adds one letter for a part of this length in the source. Returns the source offset after it.
    fn push_plain(&mut self, plain: char, at: usize, length: usize) -> usize {
        self.push_mark(at, Some(length));
        self.text.push(plain);
        self.push_mark(at + length, None);
        at + length
    }

    fn push_mark(&mut self, whole: usize, letter: Option<usize>) {
        let here = self.text.len();
        let mark = PositionMark { here, whole, letter };
        match self.marks.last_mut() {
            Some(last) if last.here == here => *last = mark,
            _ => self.marks.push(mark),
        }
    }

    /// Returns the source range of a range in this text, without zero-width characters after its last letter.
    fn source_span(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let at = |here: usize| {
            let after = self.marks.partition_point(|mark| mark.here <= here);
            after.checked_sub(1).and_then(|last| self.marks.get(last)).copied()
        };
        let (first, last) = (at(start)?, at(end.checked_sub(1)?)?);
        let begins = first.whole + (start - first.here);
        let ends = match last.letter {
            Some(length) => last.whole + length,
            None => last.whole + (end - last.here),
        };
        Some((begins, ends))
    }
}

/// Returns the plain letter for a full-width one.
fn plain_letter(letter: char) -> Option<char> {
    let wide = ('\u{ff01}'..='\u{ff5e}').contains(&letter);
    wide.then(|| char::from_u32(u32::from(letter) - 0xfee0)).flatten()
}

/// Whether a full-width letter belongs to a number or an address; full-width commas occur in every Chinese text.
fn is_wide_value(letter: char) -> bool {
    matches!(letter, '\u{ff10}'..='\u{ff19}' | '\u{ff20}')
}

/// How far a word is followed, back and ahead.
const MAX_WORD_BYTES: usize = 256;

/// Finds the next word with URL-encoded characters: `to=ann%40example.com`, `name=Ann+Lee`.
fn next_encoded_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| matches!(byte, b'%' | b'+'))?;
        let ends = |byte: &&u8| !byte.is_ascii_whitespace();
        let back = bytes[from..at]
            .iter()
            .rev()
            .take(MAX_WORD_BYTES)
            .take_while(ends)
            .count();
        let before = &bytes[at - back..at];
        if decode_escape(&bytes[at..]).is_some() && (bytes[at] == b'%' || before.contains(&b'=')) {
            let ahead = bytes[at..].iter().take(MAX_WORD_BYTES).take_while(ends).count();
            let (start, end) = (text.ceil_char_boundary(at - back), text.floor_char_boundary(at + ahead));
            return Some((start, end.max(at + 1)));
        }
        at += 1;
    }
}

/// Decodes the character at the start, and returns its encoded length: `%40`, `+`. A space becomes a no-break space,
/// which does not end a value.
fn decode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    if let [b'+', ..] = bytes {
        return Some(('\u{a0}', 1));
    }
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    match value {
        0x20 => Some(('\u{a0}', 3)),
        0x21..0x7f => Some((char::from(value), 3)),
        _ => None,
    }
}

fn has_invisible(text: &str) -> bool {
    // Most texts are ASCII, and most others nearly so.
    let chunks = text.as_bytes().chunks(CHUNK_BYTES).enumerate();
    let mut others = chunks.filter(|(_, chunk)| !chunk.is_ascii());
    others.any(|(index, chunk)| {
        let leads = chunk
            .iter()
            .enumerate()
            .filter(|(_, byte)| LEAD_BYTES[usize::from(**byte)]);
        let mut letters = leads.filter_map(|(at, _)| text.get(index * CHUNK_BYTES + at..)?.chars().next());
        letters.any(|letter| is_invisible(letter) || is_wide_value(letter))
    })
}

const CHUNK_BYTES: usize = 128;

/// First bytes of zero-width and full-width characters.
static LEAD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let leads = [0xC2_u8, 0xCD, 0xD8, 0xE1, 0xE2, 0xE3, 0xEF, 0xF0, 0xF3];
    let mut index = 0;
    while index < leads.len() {
        table[leads[index] as usize] = true;
        index += 1;
    }
    table
};

/// Whether a character is drawn as nothing by default: `Default_Ignorable_Code_Point` of Unicode.
pub(crate) fn is_invisible(letter: char) -> bool {
    letter >= '\u{ad}'
        && matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests;
