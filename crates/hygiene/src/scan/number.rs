//! Digits in a text: a run of groups with separators between them, and the card, national number, IP address or
//! telephone number in it.

use super::word_context::{self, WordContext};
use super::{Scan, address, card, iban, national_ids, phone};
use crate::kind::SensitiveKind;

/// The separator between two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    None,
    Space,
    Dash,
    Dot,
    Slash,
    Paren,
}

#[derive(Debug, Clone, Copy)]
struct DigitGroup {
    start: usize,
    end: usize,
    sep: Separator,
}

const MAX_GROUPS: usize = 16;
/// This many digits after a point are a fraction, whatever they look like.
const MIN_FRACTION_DIGITS: usize = 9;

/// Groups of digits with single separators between them, of any kind of space or dash.
pub(super) struct DigitRun {
    groups: [DigitGroup; MAX_GROUPS],
    count: usize,
}

/// The digits of some groups as numbers.
pub(super) struct Digits {
    digits: [u8; Digits::MAX_DIGITS],
    count: usize,
}

impl Digits {
    const MAX_DIGITS: usize = 32;

    pub(super) fn get(&self) -> &[u8] {
        &self.digits[..self.count]
    }

    /// Returns the digits of a text, without other letters; `None` if there are too many.
    pub(super) fn from_text(text: &[u8]) -> Option<Digits> {
        let mut all = Digits {
            digits: [0; Digits::MAX_DIGITS],
            count: 0,
        };
        for byte in text.iter().filter(|byte| byte.is_ascii_digit()) {
            *all.digits.get_mut(all.count)? = byte - b'0';
            all.count += 1;
        }
        Some(all)
    }
}

impl DigitRun {
    /// Reads the run that begins with the digit here.
    pub(super) fn read(scan: &Scan<'_>, start: usize) -> DigitRun {
        let empty = DigitGroup {
            start,
            end: start,
            sep: Separator::None,
        };
        let mut run = DigitRun {
            groups: [empty; MAX_GROUPS],
            count: 0,
        };
        let (mut from, mut sep) = (start, Separator::None);
        loop {
            let mut end = from;
            while scan.byte_at(end).is_ascii_digit() {
                end += 1;
            }
            run.groups[run.count] = DigitGroup { start: from, end, sep };
            run.count += 1;
            let spaced = || run.count == 1 && is_area_code(scan, start, end);
            let next = separator_at(scan, end).or_else(|| spaced().then(|| spaced_slash_at(scan, end)).flatten());
            let Some((length, next)) = next else {
                return run;
            };
            if run.count == MAX_GROUPS {
                return run;
            }
            (from, sep) = (end + length, next);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn start(&self, group: usize) -> usize {
        self.groups[group].start
    }

    pub(super) fn end(&self, group: usize) -> usize {
        self.groups[group].end
    }

    /// Returns the separator before a group.
    pub(super) fn separator_before(&self, group: usize) -> Separator {
        self.groups[group].sep
    }

    pub(super) fn group_size(&self, group: usize) -> usize {
        self.groups[group].end - self.groups[group].start
    }

    /// Whether a group is the fraction of a number: 0.4929132412341234 is not a card.
    fn is_fraction(&self, group: usize) -> bool {
        let alone = |group: usize| group >= self.count || self.separator_before(group) != Separator::Dot;
        group > 0
            && self.separator_before(group) == Separator::Dot
            && self.group_size(group) >= MIN_FRACTION_DIGITS
            && alone(group - 1)
            && alone(group + 1)
    }

    /// Returns the digits in the groups `from..to`.
    pub(super) fn digits(&self, scan: &Scan<'_>, from: usize, to: usize) -> Option<Digits> {
        Digits::from_text(&scan.bytes[self.start(from)..self.end(to - 1)])
    }

    pub(super) fn digit_count(&self, from: usize, to: usize) -> usize {
        (from..to).map(|group| self.group_size(group)).sum()
    }

    /// Returns the separator that all groups of `from..to` share, if there is one.
    pub(super) fn common_separator(&self, from: usize, to: usize) -> Option<Separator> {
        if to - from < 2 {
            return Some(Separator::None);
        }
        let first = self.separator_before(from + 1);
        (from + 2..to)
            .all(|group| self.separator_before(group) == first)
            .then_some(first)
    }

    /// Whether the groups `from..` have these sizes.
    pub(super) fn has_sizes(&self, from: usize, sizes: &[usize]) -> bool {
        from + sizes.len() <= self.count
            && sizes
                .iter()
                .enumerate()
                .all(|(index, size)| self.group_size(from + index) == *size)
    }

    pub(super) fn group_value(&self, scan: &Scan<'_>, group: usize) -> u32 {
        let digits = scan.bytes[self.start(group)..self.end(group)].iter().take(9);
        digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
    }
}

/// Returns a separator with a digit after it.
fn separator_at(scan: &Scan<'_>, at: usize) -> Option<(usize, Separator)> {
    let digit = |length: usize| scan.byte_at(at + length).is_ascii_digit();
    let (length, sep) = match scan.byte_at(at) {
        b' ' | b'-' if scan.byte_at(at + 1) == b'(' && digit(2) => (2, Separator::Paren),
        b' ' => (1, Separator::Space),
        b'-' => (1, Separator::Dash),
        b'.' => (1, Separator::Dot),
        b'/' => (1, Separator::Slash),
        b')' if matches!(scan.byte_at(at + 1), b' ' | b'-' | b'.') => (2, Separator::Paren),
        b'(' | b')' => (1, Separator::Paren),
        0xC2 if scan.byte_at(at + 1) == 0xA0 => (2, Separator::Space),
        0xE2 => match (scan.byte_at(at + 1), scan.byte_at(at + 2)) {
            (0x80, 0x80..=0x8A | 0xAF) | (0x81, 0x9F) => (3, Separator::Space),
            (0x80, 0x90..=0x95) | (0x88, 0x92) => (3, Separator::Dash),
            _ => return None,
        },
        0xE3 if scan.byte_at(at + 1) == 0x80 && scan.byte_at(at + 2) == 0x80 => (3, Separator::Space),
        _ => return None,
    };
    digit(length).then_some((length, sep))
}

/// Whether digits are the area code of a national number, with its zero.
fn is_area_code(scan: &Scan<'_>, start: usize, end: usize) -> bool {
    scan.byte_at(start) == b'0' && (3..=5).contains(&(end - start))
}

/// Returns a slash between spaces with a digit after it, as it stands behind area codes: `030 / 90 18 20`.
fn spaced_slash_at(scan: &Scan<'_>, at: usize) -> Option<(usize, Separator)> {
    let written = scan.bytes.get(at..)?.starts_with(b" / ") && scan.byte_at(at + 3).is_ascii_digit();
    written.then_some((3, Separator::Slash))
}

/// Scans the digits from here on. Returns how far the text is done.
pub(super) fn scan_number(scan: &mut Scan<'_>, at: usize) -> usize {
    if scan.byte_before(at).is_ascii_alphanumeric()
        && let Some(end) = iban::iban_end(scan, at).or_else(|| national_ids::scan_lettered_id(scan, at))
    {
        return end;
    }
    let run = DigitRun::read(scan, at);
    let last = run.count - 1;
    if scan.byte_at(run.end(last)) == b'@' {
        // The local part of an e-mail address may be digits.
        return run.end(last);
    }
    if !is_word_byte(scan.byte_before(run.start(0)))
        && let Some(end) = card::broken_card_end(scan, &run)
    {
        return scan.add_finding(run.start(0), end, SensitiveKind::Card);
    }
    if run.count == 1 && run.group_size(0) < 6 {
        return scan_after_short(scan, &run);
    }
    let mut around = WordContext::new(run.start(0), run.end(last));
    let mut from = usize::from(is_word_byte(scan.byte_before(run.start(0))));
    let glued = is_word_byte(scan.byte_at(run.end(last))) && !phone::has_extension(scan, run.end(last));
    let mut to = run.count - usize::from(glued);
    if glued && let Some((start, end, kind)) = national_ids::trailing_letter_id(scan, &run, last) {
        scan.add_finding(start, end, kind);
        to = (0..run.count).find(|group| run.start(*group) >= start).unwrap_or(to);
    }
    while from < to {
        from = scan_group(scan, &run, from, to, &mut around);
    }
    run.end(last).max(scan.floor)
}

/// Scans digits in a URL, where only numbers with a checksum are findings.
pub(super) fn in_page(scan: &mut Scan<'_>, at: usize) -> usize {
    if scan.byte_before(at).is_ascii_alphanumeric()
        && let Some(end) = iban::iban_end(scan, at)
    {
        return end;
    }
    let run = DigitRun::read(scan, at);
    let (last, end) = (run.count - 1, run.end(run.count - 1));
    let free = !is_word_byte(scan.byte_before(run.start(0))) && !is_word_byte(scan.byte_at(end));
    let mut around = WordContext::new(run.start(0), run.start(0));
    if free
        && (12..=19).contains(&run.digit_count(0, last + 1))
        && card::card_end(scan, &run, 0, last + 1, &mut around) == Some(last + 1)
    {
        scan.add_finding(run.start(0), end, SensitiveKind::Card);
    }
    end
}

/// Scans a MAC address after a short number.
fn scan_after_short(scan: &mut Scan<'_>, run: &DigitRun) -> usize {
    let end = run.end(0);
    if matches!(scan.byte_at(end), b'-' | b'.' | b'a'..=b'f' | b'A'..=b'F') {
        if let Some((start, end)) = address::mac_span(scan, run.start(0)) {
            return scan.add_finding(start, end, SensitiveKind::Mac);
        }
        if let Some((start, end, kind)) = national_ids::trailing_letter_id(scan, run, 0) {
            return scan.add_finding(start, end, kind);
        }
    }
    end
}

/// Scans what begins with one group. Returns the group to continue with.
fn scan_group(scan: &mut Scan<'_>, run: &DigitRun, from: usize, to: usize, around: &mut WordContext) -> usize {
    if let Some(next) = address::ipv4_end(scan, run, from).filter(|next| *next <= to) {
        let version = around.has(scan, word_context::VERSION);
        if !version {
            scan.add_finding(run.start(from), run.end(next - 1), SensitiveKind::Ip);
        }
        return next;
    }
    if let Some((start, end)) = (run.group_size(from) <= 4)
        .then(|| address::mac_span(scan, run.start(from)))
        .flatten()
    {
        scan.add_finding(start, end, SensitiveKind::Mac);
        return (from..to).find(|group| run.start(*group) >= end).unwrap_or(to);
    }
    if run.is_fraction(from) {
        return from + 1;
    }
    if let Some(next) = date_end(scan, run, from).filter(|next| *next <= to) {
        if around.has(scan, word_context::BIRTH) {
            scan.add_finding(run.start(from), run.end(next - 1), SensitiveKind::BirthDate);
        }
        return next;
    }
    if let Some(next) = card::card_end(scan, run, from, to, around) {
        scan.add_finding(run.start(from), run.end(next - 1), SensitiveKind::Card);
        return next;
    }
    if let Some((next, kind)) = national_ids::national_id_at(scan, run, from, to, around) {
        scan.add_finding(run.start(from), run.end(next - 1), kind);
        return next;
    }
    if let Some((start, end, next)) = phone::phone_at(scan, run, from, to, around) {
        scan.add_finding(start, end, SensitiveKind::Phone);
        return next;
    }
    from + 1
}

/// Returns the end of a numeric date with the year first or last.
fn date_end(scan: &Scan<'_>, run: &DigitRun, from: usize) -> Option<usize> {
    let next = from + 3;
    if run.count < next
        || !matches!(
            run.common_separator(from, next)?,
            Separator::Dash | Separator::Dot | Separator::Slash
        )
    {
        return None;
    }
    let sizes = [run.group_size(from), run.group_size(from + 1), run.group_size(from + 2)];
    let value = |index: usize| run.group_value(scan, from + index);
    let month = |index: usize| (1..=12).contains(&value(index));
    let day = |index: usize| (1..=31).contains(&value(index));
    let year = |index: usize| (1850..=2150).contains(&value(index));
    let good = match sizes {
        [4, 1 | 2, 1 | 2] => year(0) && month(1) && day(2),
        [1 | 2, 1 | 2, 4] => year(2) && (month(0) && day(1) || day(0) && month(1)),
        _ => false,
    };
    good.then_some(next)
}

/// Whether a byte continues a word.
pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
