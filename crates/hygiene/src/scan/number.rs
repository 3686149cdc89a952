//! Digits in a text: a run of groups with separators between them, and the card, national number, IP address or
//! telephone number in it.

use super::context::{self, Context};
use super::{Scan, address, card, iban, ids, phone};
use crate::kind::Kind;

/// The separator between two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sep {
    None,
    Space,
    Dash,
    Dot,
    Slash,
    Paren,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
    sep: Sep,
}

const GROUPS: usize = 16;
/// This many digits after a point are a fraction, whatever they look like.
const FRACTION: usize = 9;

/// Groups of digits with single separators between them, of any kind of space or dash.
pub(super) struct Run {
    groups: [Group; GROUPS],
    count: usize,
}

/// The digits of some groups as numbers.
pub(super) struct Digits {
    digits: [u8; Digits::MOST],
    count: usize,
}

impl Digits {
    const MOST: usize = 32;

    pub(super) fn get(&self) -> &[u8] {
        &self.digits[..self.count]
    }

    /// Returns the digits of a text, without other letters; `None` if there are too many.
    pub(super) fn of(text: &[u8]) -> Option<Digits> {
        let mut all = Digits {
            digits: [0; Digits::MOST],
            count: 0,
        };
        for byte in text.iter().filter(|byte| byte.is_ascii_digit()) {
            *all.digits.get_mut(all.count)? = byte - b'0';
            all.count += 1;
        }
        Some(all)
    }
}

impl Run {
    /// Reads the run that begins with the digit here.
    pub(super) fn at(scan: &Scan<'_>, start: usize) -> Run {
        let empty = Group {
            start,
            end: start,
            sep: Sep::None,
        };
        let mut run = Run {
            groups: [empty; GROUPS],
            count: 0,
        };
        let (mut from, mut sep) = (start, Sep::None);
        loop {
            let mut end = from;
            while scan.byte(end).is_ascii_digit() {
                end += 1;
            }
            run.groups[run.count] = Group { start: from, end, sep };
            run.count += 1;
            let Some((length, next)) = separator(scan, end) else {
                return run;
            };
            if run.count == GROUPS {
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
    pub(super) fn sep(&self, group: usize) -> Sep {
        self.groups[group].sep
    }

    pub(super) fn size(&self, group: usize) -> usize {
        self.groups[group].end - self.groups[group].start
    }

    /// Whether a group is the fraction of a number: 0.4929132412341234 is not a card.
    fn is_fraction(&self, group: usize) -> bool {
        let alone = |group: usize| group >= self.count || self.sep(group) != Sep::Dot;
        group > 0 && self.sep(group) == Sep::Dot && self.size(group) >= FRACTION && alone(group - 1) && alone(group + 1)
    }

    /// Returns the digits in the groups `from..to`.
    pub(super) fn digits(&self, scan: &Scan<'_>, from: usize, to: usize) -> Option<Digits> {
        Digits::of(&scan.bytes[self.start(from)..self.end(to - 1)])
    }

    pub(super) fn total(&self, from: usize, to: usize) -> usize {
        (from..to).map(|group| self.size(group)).sum()
    }

    /// Returns the separator that all groups of `from..to` share, if there is one.
    pub(super) fn same_sep(&self, from: usize, to: usize) -> Option<Sep> {
        if to - from < 2 {
            return Some(Sep::None);
        }
        let first = self.sep(from + 1);
        (from + 2..to).all(|group| self.sep(group) == first).then_some(first)
    }

    /// Whether the groups `from..` have these sizes.
    pub(super) fn shaped(&self, from: usize, sizes: &[usize]) -> bool {
        from + sizes.len() <= self.count
            && sizes
                .iter()
                .enumerate()
                .all(|(index, size)| self.size(from + index) == *size)
    }

    pub(super) fn value(&self, scan: &Scan<'_>, group: usize) -> u32 {
        let digits = scan.bytes[self.start(group)..self.end(group)].iter().take(9);
        digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
    }
}

/// Returns a separator with a digit after it.
fn separator(scan: &Scan<'_>, at: usize) -> Option<(usize, Sep)> {
    let digit = |length: usize| scan.byte(at + length).is_ascii_digit();
    let (length, sep) = match scan.byte(at) {
        b' ' | b'-' if scan.byte(at + 1) == b'(' && digit(2) => (2, Sep::Paren),
        b' ' => (1, Sep::Space),
        b'-' => (1, Sep::Dash),
        b'.' => (1, Sep::Dot),
        b'/' => (1, Sep::Slash),
        b')' if matches!(scan.byte(at + 1), b' ' | b'-' | b'.') => (2, Sep::Paren),
        b'(' | b')' => (1, Sep::Paren),
        0xC2 if scan.byte(at + 1) == 0xA0 => (2, Sep::Space),
        0xE2 => match (scan.byte(at + 1), scan.byte(at + 2)) {
            (0x80, 0x80..=0x8A | 0xAF) | (0x81, 0x9F) => (3, Sep::Space),
            (0x80, 0x90..=0x95) | (0x88, 0x92) => (3, Sep::Dash),
            _ => return None,
        },
        0xE3 if scan.byte(at + 1) == 0x80 && scan.byte(at + 2) == 0x80 => (3, Sep::Space),
        _ => return None,
    };
    digit(length).then_some((length, sep))
}

/// Scans the digits from here on. Returns how far the text is done.
pub(super) fn at(scan: &mut Scan<'_>, at: usize) -> usize {
    if scan.before(at).is_ascii_alphanumeric()
        && let Some(end) = iban::at(scan, at).or_else(|| ids::lettered(scan, at))
    {
        return end;
    }
    let run = Run::at(scan, at);
    let last = run.count - 1;
    if scan.byte(run.end(last)) == b'@' {
        // The local part of an e-mail address may be digits.
        return run.end(last);
    }
    if !is_word(scan.before(run.start(0)))
        && let Some(end) = card::broken(scan, &run)
    {
        return scan.found(run.start(0), end, Kind::Card);
    }
    if run.count == 1 && run.size(0) < 6 {
        return after_short(scan, &run);
    }
    let mut around = Context::new(run.start(0), run.end(last));
    let mut from = usize::from(is_word(scan.before(run.start(0))));
    let glued = is_word(scan.byte(run.end(last))) && !phone::extends(scan, run.end(last));
    let mut to = run.count - usize::from(glued);
    if glued && let Some((start, end, kind)) = ids::trailed(scan, &run, last) {
        scan.found(start, end, kind);
        to = (0..run.count).find(|group| run.start(*group) >= start).unwrap_or(to);
    }
    while from < to {
        from = group(scan, &run, from, to, &mut around);
    }
    run.end(last).max(scan.floor)
}

/// Scans digits in a URL, where only numbers with a checksum are findings.
pub(super) fn in_page(scan: &mut Scan<'_>, at: usize) -> usize {
    if scan.before(at).is_ascii_alphanumeric()
        && let Some(end) = iban::at(scan, at)
    {
        return end;
    }
    let run = Run::at(scan, at);
    let (last, end) = (run.count - 1, run.end(run.count - 1));
    let free = !is_word(scan.before(run.start(0))) && !is_word(scan.byte(end));
    let mut around = Context::new(run.start(0), run.start(0));
    if free
        && (12..=19).contains(&run.total(0, last + 1))
        && card::at(scan, &run, 0, last + 1, &mut around) == Some(last + 1)
    {
        scan.found(run.start(0), end, Kind::Card);
    }
    end
}

/// Scans a MAC address after a short number.
fn after_short(scan: &mut Scan<'_>, run: &Run) -> usize {
    let end = run.end(0);
    if matches!(scan.byte(end), b'-' | b'.' | b'a'..=b'f' | b'A'..=b'F') {
        if let Some((start, end)) = address::hardware(scan, run.start(0)) {
            return scan.found(start, end, Kind::Mac);
        }
        if let Some((start, end, kind)) = ids::trailed(scan, run, 0) {
            return scan.found(start, end, kind);
        }
    }
    end
}

/// Scans what begins with one group. Returns the group to continue with.
fn group(scan: &mut Scan<'_>, run: &Run, from: usize, to: usize, around: &mut Context) -> usize {
    if let Some(next) = address::four(scan, run, from).filter(|next| *next <= to) {
        let version = around.has(scan, context::VERSION);
        if !version {
            scan.found(run.start(from), run.end(next - 1), Kind::Ip);
        }
        return next;
    }
    if let Some((start, end)) = (run.size(from) <= 4)
        .then(|| address::hardware(scan, run.start(from)))
        .flatten()
    {
        scan.found(start, end, Kind::Mac);
        return (from..to).find(|group| run.start(*group) >= end).unwrap_or(to);
    }
    if run.is_fraction(from) {
        return from + 1;
    }
    if let Some(next) = date(scan, run, from).filter(|next| *next <= to) {
        if around.has(scan, context::BIRTH) {
            scan.found(run.start(from), run.end(next - 1), Kind::BirthDate);
        }
        return next;
    }
    if let Some(next) = card::at(scan, run, from, to, around) {
        scan.found(run.start(from), run.end(next - 1), Kind::Card);
        return next;
    }
    if let Some((next, kind)) = ids::numbered(scan, run, from, to, around) {
        scan.found(run.start(from), run.end(next - 1), kind);
        return next;
    }
    if let Some((start, end, next)) = phone::at(scan, run, from, to, around) {
        scan.found(start, end, Kind::Phone);
        return next;
    }
    from + 1
}

/// Returns the end of a numeric date with the year first or last.
fn date(scan: &Scan<'_>, run: &Run, from: usize) -> Option<usize> {
    let next = from + 3;
    if run.count < next || !matches!(run.same_sep(from, next)?, Sep::Dash | Sep::Dot | Sep::Slash) {
        return None;
    }
    let sizes = [run.size(from), run.size(from + 1), run.size(from + 2)];
    let value = |index: usize| run.value(scan, from + index);
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
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
