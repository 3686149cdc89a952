//! Scans a text once for everything that has a form: it stops at digits, `@`, `:`, `=` and `>` and looks around from
//! there. Checksums are computed where they are needed, so ordinary text costs only the walk.

mod address;
mod around;
mod assigned;
mod card;
pub(crate) mod checks;
pub(crate) mod context;
mod credential;
mod element;
mod iban;
mod ids;
mod internet;
mod label;
mod number;
mod phone;

pub(crate) use iban::begun as account_length;

use crate::finding::{Evidence, Finding};
use crate::keys::{self, Telling};
use crate::kind::{Kind, Kinds};

/// How certain the surroundings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Somewhere in a running text.
    Text,
    /// A whole value, such as a string in JSON or a cell of a table.
    Value,
}

/// The state of one scan.
pub(crate) struct Scan<'t> {
    pub(crate) text: &'t str,
    pub(crate) bytes: &'t [u8],
    pub(crate) kinds: Kinds,
    pub(crate) place: Place,
    /// Everything before this offset is done.
    floor: usize,
    /// End of the URL that is being read.
    page: usize,
    /// End of the last long word.
    word: usize,
    /// Whether the text contains a printed structure with a key above others.
    printed: bool,
    /// Whether there are keys of fields, and keys of their values.
    pairs: (bool, bool),
    /// End of the last value that a secret key was given.
    given: usize,
    /// A cache of key hints: most texts repeat the same few keys.
    asked: Vec<Option<(&'t str, Option<Telling>)>>,
    long: Vec<(usize, usize)>,
    /// A cache of name owner hints, because each key is beside many others.
    hints: around::KeyHints,
    out: Vec<Finding>,
}

/// The result of a scan.
pub(crate) struct Scanned {
    pub(crate) found: Vec<Finding>,
    /// Long words with digits, among which are tokens.
    pub(crate) long: Vec<(usize, usize)>,
    /// Whether the text contains a printed structure in which one value says what another is.
    pub(crate) printed: bool,
}

/// Slots of the cache of key hints.
const ASKED: usize = 64;

/// A word of this length or more may be a token.
const LONG: usize = 12;
/// How far a word is followed, back and ahead.
const BACK: usize = 128;
const AHEAD: usize = 4096;

const DIGIT: u8 = 1;
const AT: u8 = 2;
const COLON: u8 = 3;
const EQUALS: u8 = 4;
const CLOSES: u8 = 5;

/// The bytes at which the scan stops.
static STOPS: [u8; 256] = {
    let mut table = [0; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        table[digit as usize] = DIGIT;
        digit += 1;
    }
    table[b'@' as usize] = AT;
    table[b':' as usize] = COLON;
    table[b'=' as usize] = EQUALS;
    table[b'>' as usize] = CLOSES;
    table
};

/// Finds everything in a text that has a form.
pub(crate) fn scan(text: &str, kinds: Kinds, place: Place, out: Vec<Finding>) -> Scanned {
    let mut scan = Scan {
        text,
        bytes: text.as_bytes(),
        kinds,
        place,
        floor: 0,
        page: 0,
        word: 0,
        printed: false,
        pairs: (false, false),
        given: 0,
        asked: Vec::new(),
        long: Vec::new(),
        hints: around::KeyHints::default(),
        out,
    };
    let mut at = 0;
    while let Some((offset, stop)) =
        scan.bytes[at..]
            .iter()
            .enumerate()
            .find_map(|(index, byte)| match STOPS[usize::from(*byte)] {
                0 => None,
                stop => Some((index, stop)),
            })
    {
        at += offset;
        let next = match stop {
            DIGIT => {
                let next = if at < scan.page {
                    number::in_page(&mut scan, at)
                } else {
                    number::at(&mut scan, at)
                };
                scan.long_word(at);
                scan.long_word(next.saturating_sub(1));
                next
            }
            AT => internet::email_at(&mut scan, at),
            EQUALS => {
                label::value_at(&mut scan, at);
                at + 1
            }
            CLOSES => {
                element::at(&mut scan, at);
                at + 1
            }
            _ => scan.colon_at(at),
        };
        at = next.max(at + 1);
    }
    if scan.kinds.has(Kind::Secret) {
        if [" --", " -p", "curl"].iter().any(|part| text.contains(part)) {
            credential::options(&mut scan);
        }
        credential::sentences(&mut scan);
    }
    let begins = || ["[[", "[ [", "[\n"].iter().any(|begin| text.contains(begin));
    let printed = scan.printed || scan.pairs == (true, true) || text.contains('[') && begins() && has_heading(text);
    Scanned {
        found: scan.out,
        long: scan.long,
        printed,
    }
}

/// Whether a text contains the start of a list of lists, which may be rows with a heading.
fn has_heading(text: &str) -> bool {
    let next = |from: usize| {
        let rest = text.as_bytes().get(from..)?;
        let at = from + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        Some((at, text.as_bytes()[at]))
    };
    text.match_indices('[').any(|(at, _)| {
        let inner = next(at + 1).filter(|(_, byte)| *byte == b'[');
        inner.is_some_and(|(at, _)| matches!(next(at + 1), Some((_, b'"' | b'\''))))
    })
}

impl<'t> Scan<'t> {
    /// Returns the hint of a key in this text.
    fn telling(&mut self, key: &'t str) -> Option<Telling> {
        let fold = |sum: usize, byte: &u8| sum.wrapping_mul(31).wrapping_add(usize::from(*byte));
        let place = key.as_bytes().iter().rev().take(8).fold(key.len(), fold) % ASKED;
        if let Some(Some((asked, said))) = self.asked.get(place)
            && *asked == key
        {
            return *said;
        }
        // A short value hardly has a key, so the cache is allocated late.
        self.asked.resize(ASKED, None);
        let said = keys::telling(key);
        self.asked[place] = Some((key, said));
        said
    }

    /// Returns the byte at an offset, or a space outside the text.
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(b' ')
    }

    /// Returns the byte before an offset, or a space at the start.
    fn before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(b' ', |index| self.byte(index))
    }

    /// Adds a finding if its kind is wanted; its range is done in any case.
    fn found(&mut self, start: usize, end: usize, kind: Kind) -> usize {
        self.noted(start, end, kind, Evidence::Form)
    }

    fn noted(&mut self, start: usize, end: usize, kind: Kind, by: Evidence) -> usize {
        if self.kinds.has(kind) {
            self.out.push(Finding { start, end, kind, by });
        }
        self.floor = self.floor.max(end);
        end
    }

    /// Records the word around a byte if it is long.
    fn long_word(&mut self, at: usize) {
        let letter = |byte: &&u8| {
            byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
        };
        if at < self.word || !letter(&&self.byte(at)) {
            return;
        }
        let back = self.bytes[self.word..at]
            .iter()
            .rev()
            .take(BACK)
            .take_while(letter)
            .count();
        let ahead = self.bytes[at..].iter().take(AHEAD).take_while(letter).count();
        self.word = at + ahead;
        if back + ahead >= LONG {
            self.long.push((at - back, at + ahead));
        }
    }

    fn colon_at(&mut self, at: usize) -> usize {
        if self.bytes[at + 1..].starts_with(b"//") {
            return self.page_at(at);
        }
        if let Some(end) = address::hex_at(self, at) {
            return end;
        }
        label::value_at(self, at);
        at + 1
    }

    /// Scans a URL. If URLs are not wanted, their parts are scanned: login, path, fields.
    fn page_at(&mut self, at: usize) -> usize {
        // A URL inside another is read with it.
        let end = if at < self.page {
            at + 3
        } else {
            internet::url_at(self, at)
        };
        let host = internet::login_at(self, at + 3);
        if end == at + 3 {
            return host;
        }
        // A URL may contain a password or a token.
        if end > self.word {
            self.long.push((at.max(self.word), end));
            self.word = end;
        }
        if !self.kinds.has(Kind::Url) {
            self.page = end;
            return host;
        }
        let kinds = self.kinds;
        self.kinds = if kinds.has(Kind::Secret) {
            Kinds::none().with(Kind::Secret)
        } else {
            Kinds::none()
        };
        for equals in (host..end)
            .filter(|index| self.bytes[*index] == b'=')
            .collect::<Vec<_>>()
        {
            label::value_at(self, equals);
        }
        self.kinds = kinds;
        end
    }
}

#[cfg(test)]
mod tests;
