//! Scans a text once for everything that has a form: it stops at digits, `@`, `:`, `=` and `>` and looks around from
//! there. Checksums are computed where they are needed, so ordinary text costs only the walk.

mod address;
mod assigned;
mod card;
pub(crate) mod checksums;
mod credential;
mod element;
mod email_url;
mod iban;
mod label;
mod national_ids;
mod number;
mod phone;
mod surrounding_keys;
pub(crate) mod word_context;

pub(crate) use iban::begun_iban_length as account_length;

use crate::finding::{Evidence, SensitiveSpan};
use crate::keys::{self, KeyHint};
use crate::kind::{SensitiveKind, SensitiveKinds};

/// How certain the surroundings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanScope {
    /// Somewhere in a running text.
    Text,
    /// A whole value, such as a string in JSON or a cell of a table.
    Value,
}

/// The state of one scan.
pub(crate) struct Scan<'t> {
    pub(crate) text: &'t str,
    pub(crate) bytes: &'t [u8],
    pub(crate) kinds: SensitiveKinds,
    pub(crate) place: ScanScope,
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
    asked: Vec<Option<(&'t str, Option<KeyHint>)>>,
    long: Vec<(usize, usize)>,
    /// A cache of name owner hints, because each key is beside many others.
    hints: surrounding_keys::NearbyKeyHints,
    out: Vec<SensitiveSpan>,
}

/// The result of a scan.
pub(crate) struct ScanResult {
    pub(crate) found: Vec<SensitiveSpan>,
    /// Long words with digits, among which are tokens.
    pub(crate) long: Vec<(usize, usize)>,
    /// Whether the text contains a printed structure in which one value says what another is.
    pub(crate) printed: bool,
}

/// Slots of the cache of key hints.
const ASKED: usize = 64;

/// A word of this length or more may be a token.
const MIN_TOKEN_BYTES: usize = 12;
/// How far a word is followed, back and ahead.
const MAX_WORD_BYTES_BACK: usize = 128;
const MAX_WORD_BYTES_AHEAD: usize = 4096;

const DIGIT: u8 = 1;
const AT: u8 = 2;
const COLON: u8 = 3;
const EQUALS: u8 = 4;
const CLOSES: u8 = 5;

/// The bytes at which the scan stops.
static STOP_BYTES: [u8; 256] = {
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
pub(crate) fn scan_text(text: &str, kinds: SensitiveKinds, place: ScanScope, out: Vec<SensitiveSpan>) -> ScanResult {
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
        hints: surrounding_keys::NearbyKeyHints::default(),
        out,
    };
    let mut at = 0;
    while let Some((offset, stop)) =
        scan.bytes[at..]
            .iter()
            .enumerate()
            .find_map(|(index, byte)| match STOP_BYTES[usize::from(*byte)] {
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
                    number::scan_number(&mut scan, at)
                };
                scan.note_long_word(at);
                scan.note_long_word(next.saturating_sub(1));
                next
            }
            AT => email_url::scan_email(&mut scan, at),
            EQUALS => {
                label::scan_value(&mut scan, at);
                at + 1
            }
            CLOSES => {
                element::scan_element(&mut scan, at);
                at + 1
            }
            _ => scan.scan_colon(at),
        };
        at = next.max(at + 1);
    }
    if scan.kinds.contains(SensitiveKind::Secret) {
        if [" --", " -p", "curl"].iter().any(|part| text.contains(part)) {
            credential::scan_options(&mut scan);
        }
        credential::scan_sentences(&mut scan);
    }
    let begins = || ["[[", "[ [", "[\n"].iter().any(|begin| text.contains(begin));
    let printed = scan.printed || scan.pairs == (true, true) || text.contains('[') && begins() && has_heading(text);
    ScanResult {
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
    fn telling(&mut self, key: &'t str) -> Option<KeyHint> {
        let fold = |sum: usize, byte: &u8| sum.wrapping_mul(31).wrapping_add(usize::from(*byte));
        let place = key.as_bytes().iter().rev().take(8).fold(key.len(), fold) % ASKED;
        if let Some(Some((asked, said))) = self.asked.get(place)
            && *asked == key
        {
            return *said;
        }
        // A short value hardly has a key, so the cache is allocated late.
        self.asked.resize(ASKED, None);
        let said = keys::key_hint(key);
        self.asked[place] = Some((key, said));
        said
    }

    /// Returns the byte at an offset, or a space outside the text.
    fn byte_at(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(b' ')
    }

    /// Returns the byte before an offset, or a space at the start.
    fn byte_before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(b' ', |index| self.byte_at(index))
    }

    /// Adds a finding if its kind is wanted; its range is done in any case.
    fn add_finding(&mut self, start: usize, end: usize, kind: SensitiveKind) -> usize {
        self.add_finding_by(start, end, kind, Evidence::Form)
    }

    fn add_finding_by(&mut self, start: usize, end: usize, kind: SensitiveKind, by: Evidence) -> usize {
        if self.kinds.contains(kind) {
            self.out.push(SensitiveSpan { start, end, kind, by });
        }
        self.floor = self.floor.max(end);
        end
    }

    /// Records the word around a byte if it is long.
    fn note_long_word(&mut self, at: usize) {
        let letter = |byte: &&u8| {
            byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~')
        };
        if at < self.word || !letter(&&self.byte_at(at)) {
            return;
        }
        let back = self.bytes[self.word..at]
            .iter()
            .rev()
            .take(MAX_WORD_BYTES_BACK)
            .take_while(letter)
            .count();
        let ahead = self.bytes[at..]
            .iter()
            .take(MAX_WORD_BYTES_AHEAD)
            .take_while(letter)
            .count();
        self.word = at + ahead;
        if back + ahead >= MIN_TOKEN_BYTES {
            self.long.push((at - back, at + ahead));
        }
    }

    fn scan_colon(&mut self, at: usize) -> usize {
        if self.bytes[at + 1..].starts_with(b"//") {
            return self.page_at(at);
        }
        if let Some(end) = address::scan_hex(self, at) {
            return end;
        }
        label::scan_value(self, at);
        at + 1
    }

    /// Scans a URL. If URLs are not wanted, their parts are scanned: login, path, fields.
    fn page_at(&mut self, at: usize) -> usize {
        // A URL inside another is read with it.
        let end = if at < self.page {
            at + 3
        } else {
            email_url::scan_url(self, at)
        };
        let host = email_url::login_at(self, at + 3);
        if end == at + 3 {
            return host;
        }
        // A URL may contain a password or a token.
        if end > self.word {
            self.long.push((at.max(self.word), end));
            self.word = end;
        }
        if !self.kinds.contains(SensitiveKind::Url) {
            self.page = end;
            return host;
        }
        let kinds = self.kinds;
        self.kinds = if kinds.contains(SensitiveKind::Secret) {
            SensitiveKinds::none().with(SensitiveKind::Secret)
        } else {
            SensitiveKinds::none()
        };
        for equals in (host..end)
            .filter(|index| self.bytes[*index] == b'=')
            .collect::<Vec<_>>()
        {
            label::scan_value(self, equals);
        }
        self.kinds = kinds;
        end
    }
}

#[cfg(test)]
mod tests;
